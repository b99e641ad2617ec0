"""One run of an export: decide once what to publish, deliver it batch by batch, and move its position with the last.

    hold ─▶ decide ─▶ send ⟲ ─▶ retire: position moves, outbox rows go
    │         │         ├── far-off retry ─▶ park
    │         │         └── failure, guard, stop ─▶ release: the next run sends what is not delivered
    │         └── failure ─▶ retire: nothing is decided
    └── live owner or guard ─▶ refused

Its owner scope is its own, `export:<name>`: a guard of one of its requests keeps nobody else from anything
(run.callback-guard.scope).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from engine.errors import (
    CANCELED,
    NOT_NOW,
    Canceled,
    ContextfulError,
    EffectSettled,
    ExecutionLive,
    ExecutionSuperseded,
    RunIdUsed,
    Waiting,
)
from engine.execution import values
from engine.execution.failures import failure_of
from engine.exports.bodies import bodies
from engine.exports.outbox import Batch, Decision, Outbox
from engine.exports.rows import selected
from engine.exports.sending import Sending
from engine.guards.rules import Kind
from engine.pins import Pins
from engine.pipeline.attempts import names
from engine.shapes import EntryKey, RunStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.execution.call import Call
    from engine.execution.held import Held
    from engine.host import Engine
    from engine.owners import Owner
    from engine.pipeline.declaration import Export
    from engine.runs import RunRow

DECIDE: Final = "decide"
"""The step that records what is published."""

MARKED_EVERY: Final = 20
"""Deliveries between two marks in the outbox; the journal knows each at once."""


class Watcher(Protocol):
    """Hears how an export gets on; what it does never stops it."""

    def opened(self, run: RunRow) -> None:
        """A run has opened."""

    def decided(self, decision: Decision) -> None:
        """What it publishes is decided, now or by an earlier attempt."""

    def delivered(self, batch: Batch, *, replayed: bool) -> None:
        """A batch is delivered, now or by an earlier attempt."""

    def closed(self, run: RunRow) -> None:
        """The run has ended, well or not."""


@dataclass(frozen=True, slots=True)
class Exported:
    """How a run of an export ended: its row, and what ended it where it did not succeed."""

    run: RunRow
    failure: ContextfulError | None = None

    @property
    def exit_code(self) -> int:
        """0 when all is delivered; 75 when it waits or a guard is in the way; 130 when stopped; else 1."""
        if self.run.status is RunStatus.SUCCESS:
            return 0
        if self.run.status is RunStatus.WAITING:
            return NOT_NOW
        if self.run.status is RunStatus.CANCELED:
            return CANCELED
        return self.failure.exit_code if self.failure else 1


@dataclass(slots=True)
class _Progress:
    """How far a run is; `unmarked` are delivered batches that the outbox does not know of yet."""

    batches: int = 0
    rows: int = 0
    bytes: int = 0
    replayed: int = 0
    unmarked: list[int] = field(default_factory=list)
    decision: Decision | None = None

    @property
    def counts(self) -> dict[str, Any]:
        """The counts as the run row has them."""
        return {name: getattr(self, name) for name in ("batches", "rows", "bytes", "replayed")}


def scope_of(export: str) -> str:
    """The owner scope of an export."""
    return f"export:{export}"


class ExportRun:
    """Runs `export`; `secrets` fill the url and headers of its destination."""

    def __init__(self, engine: Engine, export: Export, *, secrets: Mapping[str, str], watcher: Watcher) -> None:
        self._engine = engine
        self._export = export
        self._watcher = watcher
        self._destination = engine.settings.destinations[export.destination]
        guard, now = engine.settings.guard, engine.clock.now
        self._sending = Sending.to(self._destination, secrets, guard=guard, now=now)

    def run(
        self,
        run_id: str | None = None,
        *,
        await_live: Callable[[ExecutionLive], bool] = lambda _: False,
        await_due: Callable[[str, int], bool] = lambda *_: False,
    ) -> Exported:
        """Publish what is new, or go on with what an earlier run left; what fails then is on the row.

        A `run_id` whose run has succeeded is only shown again. `await_live` waits a live owner out and tells whether to
        look once more, `await_due` sits out the instant that it waits for. Raise what refuses before it is held:
        `ExecutionLive`, `ExecutionTransferBlocked`, `ExecutionPinMismatch`.
        """
        if done := self._done(run_id):
            return Exported(done)
        self._sit_out(await_live, await_due)
        if done := self._done(run_id):  # by whoever was waited for
            return Exported(done)
        ended = self._run(self._unused(run_id))
        while (due := ended.run.next_attempt_at) and await_due(self._scope, due):
            ended = self._resumed(ended, await_live)
        return ended

    def _resumed(self, waiting: Exported, await_live: Callable[[ExecutionLive], bool]) -> Exported:
        """Go on with the run that waited, or tell how it ended where another process has gone on with it first.

        Raise `ExecutionLive` where that one is still at it and is waited for no longer.
        """
        run_id = waiting.run.run_id
        while True:
            if live := self._live(self._outlasted(await_live)):
                raise live
            row = self._engine.runs.get(run_id)
            if row and row.status.terminal:
                return replace(waiting, run=row, failure=None)
            with suppress(RunIdUsed):  # another was there between the look and the opening: look again
                return self._run(run_id if row and row.status is RunStatus.WAITING else self._unused(run_id))

    def _run(self, run_id: str) -> Exported:
        run = self._engine.new_run(run_id, plan_ref=self._export.content_hash, host_scope=self._scope)
        held = self._engine.hold(self._scope, Pins(self._export.content_hash), run=run)
        self._watcher.opened(held.run)
        outbox, progress = Outbox(self._engine.profile, held, export=self._export.name), _Progress()
        ended = self._ended(held, outbox, progress)
        self._watcher.closed(ended.run)
        return ended

    def _ended(self, held: Held, outbox: Outbox, progress: _Progress) -> Exported:
        try:
            progress.decision = self._decided(held, outbox)
            self._watcher.decided(progress.decision)
            self._deliver(held, outbox, progress.decision, progress)
            row = replace(held.ended(RunStatus.SUCCESS), **progress.counts)
            held.retire(row, also=outbox.moved(progress.decision))
        except KeyboardInterrupt:
            self._failed(held, outbox, progress, failure=Canceled("interrupted"))
            raise
        except Waiting as wait:
            return self._parked(held, outbox, progress, wait)
        except Exception as raised:  # every failure past run open is recorded on its row
            return self._failed(held, outbox, progress, failure=failure_of(raised))
        return Exported(row)

    def _decided(self, held: Held, outbox: Outbox) -> Decision:
        """What the execution publishes: decided by its first attempt that comes so far, and then recorded."""
        position = outbox.begin()

        def decide(_: Call) -> bytes:
            token = self._engine.chance.token()
            selection = selected(self._export, self._engine.profile.objects, position=position)
            published = bodies(selection.rows, export=self._export.name, size=self._export.batch)
            counts = outbox.fill(published, token=token)
            return values.encode(asdict(Decision(token, *counts, selection.position)), step=DECIDE)

        key = EntryKey(held.attempt.execution_id, DECIDE, values.input_hash(None, step=DECIDE))
        outcome = held.steps.run(key, decide, schedule=self._export.schedule, likely_recorded=held.resumed)
        assert outcome.value is not None, "a decision is recorded"
        return Decision(**values.decode(outcome.value))

    def _deliver(self, held: Held, outbox: Outbox, decision: Decision, progress: _Progress) -> None:
        for batch in outbox.batches(decision):
            replayed = batch.delivered_at is not None or self._published(held, outbox, decision, batch)
            progress.batches += 1
            progress.rows += batch.rows
            progress.bytes += batch.bytes
            progress.replayed += replayed
            if batch.delivered_at is None:
                progress.unmarked.append(batch.ordinal)
            if len(progress.unmarked) == MARKED_EVERY:
                self._mark(outbox, progress)
            self._watcher.delivered(batch, replayed=replayed)

    def _published(self, held: Held, outbox: Outbox, decision: Decision, batch: Batch) -> bool:
        """Send a batch unless that is recorded; tell whether it was.

        One that a receipt has settled is delivered: nothing more is wanted of its answer.
        """
        key = EntryKey(held.attempt.execution_id, f"batch:{batch.ordinal}", batch.digest)
        if held.resumed and (entry := self._engine.profile.journal.find(key)) and entry.recorded:
            return True
        # Read before anything is admitted: nobody waits for a store under a guard.
        effect = self._sending.effect(outbox.content(decision, batch), digest=batch.digest)
        course = held.effects(self._destination, kind=Kind.PUBLICATION)
        try:
            return held.steps.run(key, effect, schedule=self._export.schedule, course=course).replayed
        except EffectSettled:
            return True

    def _parked(self, held: Held, outbox: Outbox, progress: _Progress, wait: Waiting) -> Exported:
        self._mark(outbox, progress)
        row = replace(held.waiting(wait), **progress.counts)
        try:
            held.park(row)
        except ExecutionSuperseded as superseded:
            return self._failed(held, outbox, progress, failure=superseded)
        return Exported(row, wait)

    def _failed(self, held: Held, outbox: Outbox, progress: _Progress, *, failure: ContextfulError) -> Exported:
        """Close the attempt with its failure; what is decided is left to the next run."""
        self._mark(outbox, progress)
        status = RunStatus.CANCELED if isinstance(failure, Canceled) else RunStatus.FAILED
        row = replace(held.ended(status, failure=failure), **progress.counts)
        if progress.decision or held.resumed or isinstance(failure, ExecutionSuperseded):
            held.release(row)
        else:
            held.retire(row, also=outbox.emptied())
        return Exported(row, failure)

    def _mark(self, outbox: Outbox, progress: _Progress) -> None:
        """Bring the outbox up to what the journal knows; where that fails the next run finds it out by itself."""
        if progress.decision and progress.unmarked:
            with suppress(ContextfulError):
                outbox.mark(progress.decision, progress.unmarked)
            progress.unmarked.clear()

    def _sit_out(self, await_live: Callable[[ExecutionLive], bool], await_due: Callable[[str, int], bool]) -> None:
        """Wait a live owner out, or an instant, as far as patience reaches; whoever opens meets what is left of it."""
        owner = self._outlasted(await_live)
        now = self._engine.profile.database.now()
        if owner and owner.wake_at and owner.wake_at > now and not self._live(owner):
            await_due(self._scope, owner.wake_at)

    def _outlasted(self, await_live: Callable[[ExecutionLive], bool]) -> Owner | None:
        """The owner once nobody alive holds it, or as it is when nobody waits for that any longer."""
        while live := self._live(owner := self._engine.owners.read(self._scope)):
            self._engine.stopping.check()
            if not await_live(live):
                break
        return owner

    def _live(self, owner: Owner | None) -> ExecutionLive | None:
        """What refuses another attempt while one of `owner` is alive; None while none is."""
        if owner is None or not owner.attempt or owner.lease_until <= self._engine.profile.database.now():
            return None
        return ExecutionLive(scope=self._scope, attempt=owner.attempt, lease_until=owner.lease_until)

    def _done(self, run_id: str | None) -> RunRow | None:
        """The run that was asked for, where it or a replay of it has succeeded."""
        for name in names(run_id):
            row = self._engine.runs.get(name)
            if row is None or row.status is RunStatus.SUCCESS:
                return row
        return None

    def _unused(self, run_id: str | None) -> str:
        """The run id that was asked for, or its first replay that is not used; one drawn where none was asked for."""
        unused = (name for name in names(run_id) if self._engine.runs.get(name) is None)
        return next(unused, None) or self._engine.chance.run_id()

    @property
    def _scope(self) -> str:
        return scope_of(self._export.name)
