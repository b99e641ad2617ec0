"""Execution owners: the one durable row that says who may work under a scope, for what, and until when.

    absent ──open──▶ held ──close──▶ pending ──open (same pins)──▶ held
                      │ ╲─ lease lapses ─▶ pending                  │
                      └──────── retire: absent ◀── rewind ── pending┘

An owner is *held* while an attempt of it is on an unexpired lease, *pending* while none is. Only its pins let it be
resumed; retiring it deletes its recorded work in the same batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import (
    ContextfulError,
    ExecutionLive,
    ExecutionPinMismatch,
    ExecutionSuperseded,
    Refused,
    RunIdUsed,
)
from engine.runs import closing, inserting, opening
from engine.shapes import Attempt, Pins, RunStatus
from engine.sql import call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.clock import Chance
    from engine.ports import Call, Database, JournalStore
    from engine.runs import RunRow


@dataclass(frozen=True, slots=True)
class Owner:
    """An owner's row; `lease_until` is 0 where no attempt holds it."""

    scope: str
    execution_id: str
    pins: str
    plan_ref: str
    asked_pins: str | None
    attempt: str | None
    holder: str | None
    lease_until: int
    wake_at: int | None
    opened_at: int
    finished_at: int | None


@dataclass(frozen=True, slots=True)
class Opened:
    """What an open gave: the attempt that now holds the owner, or only the owner where it is finished."""

    owner: Owner
    attempt: Attempt
    resumed: bool


class Owners:
    """Opens, releases and retires owners. Every verb is one batch with the run row it moves."""

    def __init__(self, database: Database, journal: JournalStore, chance: Chance) -> None:
        self._db = database
        self._journal = journal
        self._chance = chance

    def open(self, scope: str, pins: Pins, *, run: RunRow, holder: str) -> Opened:
        """Hold `scope` for the attempt `run`: afresh, or resuming what is pending under the same pins.

        Raise `ExecutionLive` naming the attempt whose lease still runs, `ExecutionPinMismatch` when the pending owner
        holds other pins; either way `run` is recorded failed and joins nothing (run.own.live-owner). Raise `RunIdUsed`,
        and record nothing, when an earlier attempt has the id of `run`.
        """
        fresh = self._chance.execution_id()
        pinned = {"scope": scope, "pins": pins.text, "plan_ref": pins.plan_ref, "input_hash": pins.input_hash}
        claimed = {"run_id": run.run_id, "holder": holder, "execution_id": fresh}
        self._journal.recollect()
        owner = self._opened(
            call("open_owner", **pinned, **claimed),
            call("take_owner", **pinned, **claimed),
            call("read_owner", scope=scope),
            opening(run, scope=scope, holder=holder),
            run_id=run.run_id,
        )
        attempt = Attempt(scope, owner.execution_id, run.run_id, holder)
        if owner.attempt == run.run_id or (owner.finished_at and owner.pins == pins.text):
            return Opened(owner, attempt, resumed=owner.execution_id != fresh)
        refusal = self._refusal(owner, pins)
        failed = run.ended(RunStatus.FAILED, at=self._db.now(), failure=refusal)
        self._db.run(call("note_asked_pins", scope=scope, pins=pins.text), inserting(failed))
        raise refusal

    def read(self, scope: str) -> Owner | None:
        """The owner of `scope`, if one stands."""
        rows = self._db.run(call("read_owner", scope=scope))[0]
        return Owner(*rows[0]) if rows else None

    def all(self) -> list[Owner]:
        """Every owner that stands, by scope."""
        return [Owner(*row) for row in self._db.run(call("list_owners"))[0]]

    def check(self, attempt: Attempt) -> None:
        """Raise `ExecutionSuperseded` unless `attempt` is its owner's active one (run.journal.current-owner)."""
        owner = self.read(attempt.scope)
        if owner is None or (owner.execution_id, owner.attempt) != (attempt.execution_id, attempt.run_id):
            raise ExecutionSuperseded(scope=attempt.scope, attempt=attempt.run_id)

    def retire(self, attempt: Attempt, *, run: RunRow, also: Sequence[Call] = ()) -> None:
        """End the execution: owner, recorded work and run row in one batch (run.own.retirement).

        Raise `ExecutionSuperseded`, and move nothing, when the attempt no longer holds its owner.
        """
        self._end(attempt, call("retire_owner", **_scoped(attempt)), run=run, also=also)
        self._journal.collect(attempt.execution_id)

    def finish(self, attempt: Attempt, *, run: RunRow) -> None:
        """End the execution and keep its recorded values for whoever opens the scope with `once`."""
        self._end(attempt, call("finish_owner", **_scoped(attempt)), run=run, also=(), collects=False)

    def release(self, attempt: Attempt, *, run: RunRow, wake_at: int | None = None) -> bool:
        """Close the attempt and leave the owner pending, its recorded work with it.

        Tell whether `run` closed the row: that of an attempt which was taken for dead stands as it was reaped.
        """
        _, closed = self._db.run(
            call("release_owner", scope=attempt.scope, run_id=attempt.run_id, wake_at=wake_at), closing(run)
        )
        return bool(closed)

    def withdraw(self, owner: Owner, *, record: RunRow | None = None) -> None:
        """Retire an owner no attempt holds. Raise `Refused` when one has taken it since it was read."""
        self._db.run(
            call("require_lapsed", scope=owner.scope),
            *self._journal.collection(owner.execution_id),
            *((inserting(record),) if record else ()),
            call("retire_owner", scope=owner.scope, execution_id=owner.execution_id),
        )
        self._journal.collect(owner.execution_id)

    def end_lease(self, attempt: Attempt) -> None:
        """Stamp a dropped handle's lease with its own end: it is renewed no more (run.own.unclosed-execution)."""
        self._db.run(call("end_lease", scope=attempt.scope, run_id=attempt.run_id))

    def _opened(self, *opening: Call, run_id: str) -> Owner:
        try:
            _, _, rows, _ = self._db.run(*opening)
        except Refused as refusal:
            if "runs.run_id" in refusal.constraint:
                raise RunIdUsed(run_id=run_id) from refusal
            raise
        return Owner(*rows[0])

    def _end(self, attempt: Attempt, last: Call, *, run: RunRow, also: Sequence[Call], collects: bool = True) -> None:
        collected = self._journal.collection(attempt.execution_id) if collects else ()
        try:
            self._db.run(
                call("require_attempt", **_scoped(attempt), run_id=attempt.run_id),
                *also,
                *collected,
                closing(run),
                last,
            )
        except Refused as refusal:
            if "superseded" in refusal.constraint:
                raise ExecutionSuperseded(scope=attempt.scope, attempt=attempt.run_id) from refusal
            raise

    def _refusal(self, owner: Owner, pins: Pins) -> ContextfulError:
        if owner.attempt and owner.lease_until > self._db.now():
            return ExecutionLive(scope=owner.scope, attempt=owner.attempt, lease_until=owner.lease_until)
        return ExecutionPinMismatch(
            scope=owner.scope, execution_id=owner.execution_id, pinned=owner.pins, asked=pins.text
        )


def _scoped(attempt: Attempt) -> dict[str, str]:
    return {"scope": attempt.scope, "execution_id": attempt.execution_id}
