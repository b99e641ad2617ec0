"""An attempt that holds its owner: its steps, its token, its lease in the keeper's care, and the ways it ends."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from engine.execution.cancellation import Cancellation
from engine.execution.outbound import Outbound
from engine.execution.steps import Steps
from engine.shapes import Phase, RunStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.clock import Chance, Clock
    from engine.errors import ContextfulError
    from engine.execution.admission import CooperativeAdmission
    from engine.execution.leases import Leases
    from engine.history import History
    from engine.owners import Opened, Owners
    from engine.ports import Call, Database, JournalStore
    from engine.runs import RunRow
    from engine.secrets import SecretGuard


@dataclass(frozen=True, slots=True)
class Room:
    """What every attempt of an engine works with."""

    database: Database
    journal: JournalStore
    owners: Owners
    history: History
    leases: Leases
    admission: CooperativeAdmission
    clock: Clock
    chance: Chance
    guard: SecretGuard
    noticed: Callable[[str, int, ContextfulError, int], None]


class Held:
    """One attempt's hold on its owner.

    Dropping it without an ending records no status: the keeper stamps the lease with its own end and renews it no
    more, so the owner stays pending and is resumed once that end has passed (run.own.unclosed-execution).
    """

    def __init__(self, room: Room, opened: Opened, *, run: RunRow) -> None:
        self.run = replace(run, execution_id=opened.attempt.execution_id)
        self.attempt = opened.attempt
        self.resumed = opened.resumed
        self.cancellation = Cancellation()
        self.outbound = Outbound(room.database, room.chance, attempt=opened.attempt, guard=room.guard)
        self.steps = Steps(
            room.journal, room.clock, room.chance, opened.attempt, self.outbound, self.cancellation, room.noticed
        )
        self._room = room
        self._lease = room.leases.keep(opened.attempt, self.cancellation)
        dropped = partial(room.owners.end_lease, opened.attempt)
        self._drop = weakref.finalize(self, room.leases.leave, self._lease, last=dropped)
        room.history.append(self.run, phase=Phase.PLAN, at=run.started_at)

    def retire(self, row: RunRow, *, also: Sequence[Call] = ()) -> None:
        """End the execution for good: its recorded work goes with its owner."""
        self._room.admission.check_free(self.attempt.scope)
        self._room.owners.retire(self.attempt, run=row, also=also)
        self._close(row)

    def finish(self, row: RunRow) -> None:
        """End the execution and keep what it recorded."""
        self._room.admission.check_free(self.attempt.scope)
        self._room.owners.finish(self.attempt, run=row)
        self._close(row)

    def release(self, row: RunRow) -> None:
        """Close the attempt; its owner stays pending."""
        self._room.admission.check_free(self.attempt.scope)
        if self._room.owners.release(self.attempt, run=row):
            self._close(row)
        else:
            self._leave(row)

    def ended(self, status: RunStatus, *, failure: ContextfulError | None = None) -> RunRow:
        """Return the run row as it is once the attempt has ended now."""
        row = self.run.ended(status, at=self._room.database.now(), failure=failure)
        return replace(row, error=row.error and self._room.guard.value(row.error)[0])

    def _close(self, row: RunRow) -> None:
        self._leave(row)
        self._room.history.append(row, phase=Phase.COMMIT, at=row.ended_at or row.started_at)

    def _leave(self, row: RunRow) -> None:
        self._drop.detach()
        self._room.leases.leave(self._lease)
        self.outbound.close()
        self.run = row
