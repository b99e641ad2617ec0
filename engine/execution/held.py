"""An attempt that holds its owner: its steps, its token, its lease in the keeper's care, and the ways it ends."""

from __future__ import annotations

import itertools
import logging
import weakref
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from engine import stops
from engine.errors import ExecutionSuperseded, StorageFailure
from engine.execution.aside import Aside
from engine.execution.bounds import BoundHits
from engine.execution.cancellation import Cancellation
from engine.execution.effects import Effects
from engine.execution.outbound import Outbound
from engine.execution.steps import Steps
from engine.guards.rules import Kind
from engine.shapes import Phase, RunStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.archive import Archive
    from engine.clock import Chance, Clock
    from engine.errors import ContextfulError, Waiting
    from engine.execution.callbacks import Callbacks
    from engine.execution.leases import Leases
    from engine.execution.stopping import Stopping
    from engine.history import History
    from engine.owners import Opened, Owners
    from engine.pipeline.declaration import Destination
    from engine.ports import Admission, Call, Database, JournalStore
    from engine.runs import RunRow
    from engine.secrets import SecretGuard
    from engine.shapes import Attempt

T = TypeVar("T")

_log = logging.getLogger("contextful")


@dataclass(frozen=True, slots=True)
class Room:
    """What every attempt of an engine works with."""

    database: Database
    journal: JournalStore
    owners: Owners
    history: History
    archive: Archive
    leases: Leases
    stopping: Stopping
    admission: Admission
    callbacks: Callbacks
    clock: Clock
    chance: Chance
    guard: SecretGuard
    noticed: Callable[[str, int, ContextfulError, int], None]
    ended: Callable[[RunRow], None]


class Held:
    """One attempt's hold on its owner.

    Dropping it without an ending records no status: the keeper stamps the lease with its own end and renews it no
    more, so the owner stays pending and is resumed once that end has passed (run.own.unclosed-execution).
    """

    def __init__(self, room: Room, opened: Opened) -> None:
        self.run = replace(opened.run, execution_id=opened.attempt.execution_id)
        self.attempt = opened.attempt
        self.resumed = opened.resumed
        self.opened_at = opened.owner.opened_at
        self._told = False
        self.cancellation = Cancellation()
        self.outbound = Outbound(room.database, room.chance, attempt=opened.attempt, guard=room.guard)
        self._bounds = BoundHits(room.database, self.run, holder=opened.attempt.holder)
        self.steps = Steps(
            room.journal,
            room.clock,
            room.chance,
            opened.attempt,
            self.outbound,
            self.cancellation,
            room.noticed,
            # An attempt that waited goes on under its name: its claims are told from those of its former life.
            itertools.count(int(room.chance.token(), 16) if opened.woken else 0),
            self._bounds.failed,
        )
        self._room = room
        self._lease = room.leases.keep(opened.attempt, self.cancellation)
        self._aside = Aside(
            self.cancellation, name=f"contextful-{opened.attempt.run_id}", abandoning=self.outbound.abandon
        )
        self._drop = weakref.finalize(self, _dropped, room, opened.attempt, self._lease)
        begun = room.database.now() if opened.woken else self.run.started_at
        room.history.append(self.run, phase=Phase.PLAN, at=begun)
        room.stopping.watch(opened.attempt.run_id, self.cancellation)

    def effects(self, destination: Destination, *, kind: Kind = Kind.EFFECT) -> Effects:
        """The course of one step whose effect calls `destination`."""
        return Effects(self._room, self.attempt, self.outbound, self.cancellation, destination, kind)

    def apart(self, work: Callable[[], T]) -> T:
        """Do what may block on a thread beside this one, its requests in the step that is entered here.

        Raise the token's reason as soon as it is tripped; what the work comes to then is recorded nowhere.
        """
        return self._aside.run(self.outbound.carried(work))

    def retire(self, row: RunRow, *, also: Sequence[Call] = ()) -> None:
        """End the execution for good: its recorded work goes with its owner."""
        self._room.callbacks.check_free(self.attempt.scope)
        self._room.admission.undo(self.attempt.scope)
        self._room.owners.retire(self.attempt, run=row, also=also)
        self._close(row)

    def finish(self, row: RunRow) -> None:
        """End the execution and keep what it recorded."""
        self._room.callbacks.check_free(self.attempt.scope)
        self._room.admission.undo(self.attempt.scope)
        self._room.owners.finish(self.attempt, run=row)
        self._close(row)

    def release(self, row: RunRow) -> None:
        """Close the attempt; its owner stays pending."""
        self._room.callbacks.check_free(self.attempt.scope)
        self._undo()
        if self._room.owners.release(self.attempt, run=row):
            self._close(row)
        else:
            self._leave(row)
            self._tell(row)

    def park(self, row: RunRow) -> None:
        """Close the attempt until the instant on `row`; its owner stays its own (run.retry.waiting-state).

        Raise `ExecutionSuperseded` when the attempt no longer holds its owner.
        """
        assert row.next_attempt_at is not None, "what waits has an instant"
        self._room.callbacks.check_free(self.attempt.scope)
        # A thread that was left behind must do nothing more in the name of an attempt that goes on elsewhere.
        self.cancellation.trip(ExecutionSuperseded(scope=self.attempt.scope, attempt=self.attempt.run_id))
        self._undo()
        self._room.owners.park(self.attempt, run=row, wake_at=row.next_attempt_at)
        self._leave(row)
        self._room.history.append(row, phase=Phase.PLAN, at=self._room.database.now())

    def waiting(self, wait: Waiting) -> RunRow:
        """Return the run row as it is once the attempt waits."""
        return replace(self.run.waiting(wait.due_at, failure=wait), bound_hits=self._bounds.hits)

    def ended(self, status: RunStatus, *, failure: ContextfulError | None = None) -> RunRow:
        """Return the run row as it is once the attempt has ended now."""
        row = self.run.ended(status, at=self._room.database.now(), failure=failure)
        error = row.error and self._room.guard.value(row.error)[0]
        mark = stops.read(self._room.database, row.run_id)
        return replace(row, error=error, bound_hits=self._bounds.hits, stop=mark.shown if mark else None)

    def _undo(self) -> None:
        with suppress(StorageFailure):
            # What cannot be undone now stands guarded, for our next open, a replay or an operator.
            self._room.admission.undo(self.attempt.scope)

    def _close(self, row: RunRow) -> None:
        self._leave(row)
        try:
            self._room.archive.carry(row)
        except StorageFailure:
            # The run has ended as its row says, whatever becomes of the history: the next engine appends it there.
            _log.warning("run %s is not in the run history yet: the next start appends it", row.run_id, exc_info=True)
        self._tell(row)

    def _tell(self, row: RunRow) -> None:
        """Say once that the attempt has ended, however many ways out it tried."""
        if not self._told:
            self._told = True
            self._room.ended(row)

    def _leave(self, row: RunRow) -> None:
        self._drop.detach()
        self._room.stopping.forget(self.attempt.run_id)
        self._room.leases.leave(self._lease)
        self._aside.close(self.outbound.close)
        self.run = row


def _dropped(room: Room, attempt: Attempt, lease: int) -> None:
    room.stopping.forget(attempt.run_id)
    room.leases.leave(lease, last=partial(room.owners.end_lease, attempt))
