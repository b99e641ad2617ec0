"""Execution owners: the one durable row that says who may work under a scope, for what, and until when.

    absent ──open──▶ held ──close──▶ pending ──open (same pins)──▶ held
                      │ ╲─ lease lapses ─▶ pending                  │
                      │ ╲─ park ─▶ waiting ──open (same pins, same attempt)──▶ held
                      └──────── retire: absent ◀── rewind ── pending┘

An owner is *held* while an attempt of it is on an unexpired lease, *waiting* while its attempt has parked until
`wake_at`, *pending* otherwise. Only its pins let it be resumed; retiring it deletes its recorded work in that batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.errors import (
    ContextfulError,
    ExecutionLive,
    ExecutionPinMismatch,
    ExecutionSuperseded,
    ExecutionTransferBlocked,
    Refused,
    RunIdUsed,
)
from engine.guards.guard import OWNER
from engine.guards.store import Guards
from engine.runs import Runs, closing, inserting, noting, opening, resuming
from engine.shapes import Attempt, RunStatus
from engine.sql import call
from engine.strays import Strays
from engine.unanswered import settled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.clock import Chance
    from engine.pins import Pins
    from engine.ports import Call, Database, JournalStore, Rows
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
    """What an open gave: the attempt that now holds the owner, or only the owner where it is finished.

    `run` is the attempt's row: the one asked for, or that of the attempt which waited and now goes on as `woken`.
    """

    owner: Owner
    attempt: Attempt
    run: RunRow
    resumed: bool
    woken: bool = False


class Owners:
    """Opens, releases and retires owners. Every verb is one batch with the run row it moves.

    A batch whose answer is lost is settled by that row, an open by the owner's (run.journal.d1-transport). An open of
    which nothing tells is remembered: should it have been applied late, the scope's next open gives it back first.
    """

    def __init__(self, database: Database, journal: JournalStore, chance: Chance) -> None:
        self._db = database
        self._journal = journal
        self._chance = chance
        self._strays = Strays(self, database)

    def open(self, scope: str, pins: Pins, *, run: RunRow, holder: str) -> Opened:
        """Hold `scope` for the attempt `run`: afresh, or resuming what is pending under the same pins.

        A guard that may be replayed goes in the same batch (run.callback-guard.replay); raise
        `ExecutionTransferBlocked` where one stands, `ExecutionLive` naming the attempt whose lease still runs,
        `ExecutionPinMismatch` when the pending owner holds other pins; either way `run` is recorded failed and joins
        nothing (run.own.live-owner). Raise `RunIdUsed`, and record nothing, when an earlier attempt has its id.
        """
        with self._strays.opening(scope, holder=holder):
            opened = self._open(scope, pins, run=run, holder=holder)
        self._strays.begin(opened.attempt.run_id)
        return opened

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
        held = (attempt.execution_id, attempt.run_id, attempt.holder)
        if owner is None or (owner.execution_id, owner.attempt, owner.holder) != held:
            raise ExecutionSuperseded(scope=attempt.scope, attempt=attempt.run_id)

    def retire(self, attempt: Attempt, *, run: RunRow, also: Sequence[Call] = ()) -> None:
        """End the execution: owner, recorded work and run row in one batch (run.own.retirement).

        Raise `ExecutionSuperseded`, and move nothing, when the attempt no longer holds its owner.
        """
        self._end(attempt, call("retire_owner", **_scoped(attempt)), run=run, also=also)
        self._journal.collect(attempt.execution_id)

    def checkpoint(self, attempt: Attempt, *, landed: int, also: Sequence[Call]) -> None:
        """Collect the first `landed` pulls of the execution with `also`, and leave the owner to its attempt.

        Raise `ExecutionSuperseded`, and move nothing, when the attempt no longer holds its owner.
        """
        standing = call("require_attempt", **_scoped(attempt), run_id=attempt.run_id, holder=attempt.holder)
        calls = (standing, *also, *self._journal.pull_collection(attempt.execution_id, below=landed))
        try:
            settled(lambda: self._db.run(*calls), found=lambda: self._collected(attempt, below=landed))
        except Refused as refusal:
            if "superseded" in refusal.constraint:
                raise ExecutionSuperseded(scope=attempt.scope, attempt=attempt.run_id) from refusal
            raise
        self._journal.collect_pulls(attempt.execution_id, below=landed)

    def finish(self, attempt: Attempt, *, run: RunRow) -> None:
        """End the execution and keep its recorded values for whoever opens the scope with `once`."""
        self._end(attempt, call("finish_owner", **_scoped(attempt)), run=run, also=(), collects=False)

    def park(self, attempt: Attempt, *, run: RunRow, wake_at: int) -> None:
        """Let the attempt wait until `wake_at`: it keeps its owner and holds no lease (run.retry.waiting-state).

        Raise `ExecutionSuperseded`, and move nothing, when the attempt no longer holds its owner.
        """
        self._end(attempt, call("park_owner", **_scoped(attempt), wake_at=wake_at), run=run, also=(), collects=False)

    def release(self, attempt: Attempt, *, run: RunRow) -> bool:
        """Close the attempt and leave the owner pending, its recorded work with it.

        Tell whether `run` closed the row: that of an attempt which was taken for dead stands as it was reaped.
        """
        _, closed = self._ran(call("release_owner", **attempt.columns), closing(run), run=run)
        self._strays.end(attempt.run_id)
        return bool(closed)

    def withdraw(self, owner: Owner, *, record: RunRow | None = None, also: Sequence[Call] = ()) -> None:
        """Retire an owner no attempt holds; the run of a waiting one is canceled with it.

        `record` and the calls of `also` join the batch.

        Raise `Refused` when an attempt has taken the owner since it was read, `ExecutionTransferBlocked` while a guard
        protects it.
        """
        canceled = self._canceled(owner)
        calls = (
            call("require_lapsed", scope=owner.scope),
            *((closing(canceled),) if canceled else ()),
            *self._journal.collection(owner.execution_id),
            *((inserting(record),) if record else ()),
            *also,
            call("retire_owner", scope=owner.scope, execution_id=owner.execution_id),
        )
        self._unguarded(owner.scope, lambda: settled(lambda: self._db.run(*calls), found=lambda: self._retired(owner)))
        self._journal.collect(owner.execution_id)

    def end_lease(self, attempt: Attempt) -> None:
        """Stamp a dropped handle's lease with its own end: it is renewed no more (run.own.unclosed-execution)."""
        self._db.run(call("end_lease", scope=attempt.scope, run_id=attempt.run_id))

    def _open(self, scope: str, pins: Pins, *, run: RunRow, holder: str) -> Opened:
        fresh = self._chance.execution_id()
        pinned = {"scope": scope, "pins": pins.text, "plan_ref": pins.plan_ref, "input_hash": pins.input_hash}
        claimed = {"run_id": run.run_id, "holder": holder, "execution_id": fresh}
        self._journal.recollect()
        calls = (
            call("open_owner", **pinned, **claimed),
            call("replay_guards", **pinned),
            call("take_owner", **pinned, **claimed),
            call("read_owner", scope=scope),
            opening(run, scope=scope, holder=holder),
            resuming(run, scope=scope, holder=holder),
        )
        try:
            taken, owner, woken = self._opened(*calls, attempt=Attempt(scope, fresh, run.run_id, holder))
        except ExecutionTransferBlocked as blocked:
            self._record_refused(run, blocked)
            raise
        if woken:
            return self._woken(owner, woken, fire_id=run.fire_id, holder=holder)
        if taken or (owner.finished_at and owner.pins == pins.text):
            attempt = Attempt(scope, owner.execution_id, run.run_id, holder)
            return Opened(owner, attempt, run, resumed=owner.execution_id != fresh)
        refusal = self._refusal(owner, pins)
        self._record_refused(run, refusal, call("note_asked_pins", scope=scope, pins=pins.text))
        raise refusal

    def _opened(self, *opening: Call, attempt: Attempt) -> tuple[bool, Owner, str | None]:
        """Whether the owner was taken, the owner as it stands, and the attempt that waited, if it was its owner's."""
        try:
            opened, _, taken, rows, _, woken = self._unguarded(
                attempt.scope,
                lambda: settled(lambda: self._db.run(*opening), found=lambda: self._strays.found(attempt)),
            )
        except Refused as refusal:
            if "runs.run_id" in refusal.constraint:
                raise RunIdUsed(run_id=attempt.run_id) from refusal
            raise
        return bool(opened or taken), Owner(*rows[0]), woken[0][0] if woken else None

    def _record_refused(self, run: RunRow, refusal: ContextfulError, *also: Call) -> None:
        """Record an attempt that was refused its owner and joins nothing (run.own.live-owner)."""
        failed = run.ended(RunStatus.FAILED, at=self._db.now(), failure=refusal)
        self._ran(*also, inserting(failed), run=failed)

    def _ran(self, *calls: Call, run: RunRow) -> list[Rows]:
        """Run `calls`, which bring the row of `run` to its status; where their answer is lost, the row tells."""

        def found() -> list[Rows] | None:
            row = Runs(self._db).get(run.run_id)
            return [[(run.run_id,)]] * len(calls) if row is not None and row.status is run.status else None

        return settled(lambda: self._db.run(*calls), found=found)

    def _woken(self, owner: Owner, run_id: str, *, fire_id: str | None, holder: str) -> Opened:
        """The attempt that waited, at work again under its own row; nothing of its former life claims a step."""
        run = Runs(self._db).get(run_id)
        assert run is not None, "the batch has just moved it"
        run = replace(run, fire_id=fire_id, owner=None)
        self._db.run(noting(run, holder=holder))
        self._journal.drop_claims(owner.execution_id)
        attempt = Attempt(owner.scope, owner.execution_id, run_id, holder)
        return Opened(owner, attempt, run, resumed=True, woken=True)

    def _canceled(self, owner: Owner) -> RunRow | None:
        run = Runs(self._db).get(owner.attempt) if owner.attempt else None
        if run is None or run.status is not RunStatus.WAITING:
            return None
        return run.ended(RunStatus.CANCELED, at=self._db.now())

    def _end(self, attempt: Attempt, last: Call, *, run: RunRow, also: Sequence[Call], collects: bool = True) -> None:
        collected = self._journal.collection(attempt.execution_id) if collects else ()
        calls = (call("require_attempt", **attempt.columns), *also, *collected, closing(run), last)
        try:
            self._unguarded(attempt.scope, lambda: self._ran(*calls, run=run))
            self._strays.end(attempt.run_id)
        except Refused as refusal:
            if "superseded" in refusal.constraint:
                raise ExecutionSuperseded(scope=attempt.scope, attempt=attempt.run_id) from refusal
            raise

    def _collected(self, attempt: Attempt, *, below: int) -> list[Rows] | None:
        """Nothing to answer where no pull numbered below `below` is left of the execution; None where one is."""
        steps = (entry.key.step.split(":") for entry in self._journal.entries(attempt.execution_id))
        left = any(kind == "pull" and int(number[0]) < below for kind, *number in steps)
        return None if left else []

    def _retired(self, owner: Owner) -> list[Rows] | None:
        """Nothing to answer where the execution has no owner any more; None where it has."""
        standing = self.read(owner.scope)
        return None if standing is not None and standing.execution_id == owner.execution_id else []

    def _unguarded(self, scope: str, write: Callable[[], list[Rows]]) -> list[Rows]:
        """Do `write`, and again where the guard it met is gone by now.

        Raise `ExecutionTransferBlocked` where it stands (run.callback-guard.blocked).
        """
        while True:
            try:
                return write()
            except Refused as refusal:
                if refusal.constraint != "guarded" and not refusal.constraint.startswith("guarded:"):
                    raise
                if blocked := Guards(self._db).blocking(OWNER + scope):
                    raise blocked from refusal

    def _refusal(self, owner: Owner, pins: Pins) -> ContextfulError:
        # Under its own pins an owner is refused for its lease alone, which may have lapsed by now.
        if owner.attempt and (owner.pins == pins.text or owner.lease_until > self._db.now()):
            return ExecutionLive(scope=owner.scope, attempt=owner.attempt, lease_until=owner.lease_until)
        return ExecutionPinMismatch(
            scope=owner.scope, execution_id=owner.execution_id, pinned=owner.pins, asked=pins.text
        )


def _scoped(attempt: Attempt) -> dict[str, str]:
    return {"scope": attempt.scope, "execution_id": attempt.execution_id}
