"""A backfill: one fire over the windows of a table's history, each landed whole, beside the live table.

What is asked for names the plan, so that asking again resumes it: windows that are done are skipped, those pending run.
One that fails stops no other; one that waits for a vendor leaves the rest for later, since they ask the same vendor.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from engine.errors import (
    CANCELED,
    NOT_NOW,
    BackfillNeedsIncremental,
    BackfillStepsExceeded,
    Canceled,
    ContextfulError,
    ExecutionLive,
)
from engine.fires import Fires
from engine.pipeline.chunk_run import ChunkRun, settled
from engine.pipeline.chunks import MOST, Span, spanned
from engine.pipeline.plans import ChunkState, Plans, plan_of
from engine.pipeline.reconcile import reconciled
from engine.pipeline.stage import discard_ended
from engine.pipeline.table_run import Watcher
from engine.shapes import FireState, RunStatus
from engine.stops import StopScope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from engine.host import Engine
    from engine.pipeline.declaration import Pipeline, Table
    from engine.pipeline.plans import Planned
    from engine.pipeline.source import Secrets
    from engine.runs import RunRow


@dataclass(frozen=True, slots=True)
class Course:
    """The windows of one table's history, as its plan has them."""

    table: Table
    span: Span
    overlapping: tuple[Planned, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunked:
    """What one window came to: the run it had, or what refused it, or neither where it was done already.

    `rows` counts what this backfill landed of it.
    """

    planned: Planned
    done: bool
    rows: int = 0
    run: RunRow | None = None
    refusal: ContextfulError | None = None

    @property
    def failed(self) -> bool:
        """Whether it ended by itself and landed nothing."""
        if self.refusal is not None:
            return self.refusal.exit_code not in {NOT_NOW, CANCELED}
        return self.run is not None and self.run.status in {RunStatus.FAILED, RunStatus.PARTIAL_FAILURE}


@dataclass(frozen=True, slots=True)
class Backfilled:
    """How a backfill ended: what each window came to that it reached, in order."""

    fire_id: str
    state: FireState
    chunks: tuple[Chunked, ...]
    total: int

    @property
    def done(self) -> int:
        """Windows that have landed, now or before."""
        return sum(chunk.done for chunk in self.chunks)

    @property
    def rows(self) -> int:
        """Rows that landed now."""
        return sum(chunk.rows for chunk in self.chunks)

    @property
    def exit_code(self) -> int:
        """0 once every window is done; 130 when stopped; 1 where one failed; 75 where the rest is only not now."""
        if self.state is FireState.CANCELED:
            return CANCELED
        if any(chunk.failed for chunk in self.chunks):
            return 1
        if self.done == self.total:
            return 0
        stopped = any(chunk.run and chunk.run.status is RunStatus.CANCELED for chunk in self.chunks)
        return CANCELED if stopped else NOT_NOW


class Onlooker(Watcher, Protocol):
    """Hears of runs and of the windows they are for."""

    def chunked(self, chunk: Chunked, *, done: int, total: int) -> None:
        """A window has come to an end; `done` of `total` have landed."""


@dataclass(frozen=True, slots=True)
class Backfill:
    """What is asked for, and by whom it is watched. `await_live` waits a live owner out and tells whether to retry."""

    engine: Engine
    pipeline: Pipeline
    secrets: Secrets
    watcher: Onlooker
    await_live: Callable[[ExecutionLive], bool] = lambda _: False

    def course(self, tables: Sequence[Table], start: str, end: str, *, every: str | None) -> list[Course]:
        """Plan the windows of `tables` and remember nothing yet.

        Raise `BackfillNeedsIncremental`, `BackfillWindowUnusable`, or `BackfillStepsExceeded` naming the ceiling of the
        profile's steps and what the plan comes to.
        """
        spans = spans_of(self.engine, tables, start, end, every=every)
        _refuse_many(self.engine, spans)
        plans, found = Plans(self.engine.profile.database), []
        for table, span in spans:
            beside = plans.beside(table, plan_of(table, span), span.window)
            found.append(Course(table, span, tuple(beside)))
        return found

    def run(self, courses: Sequence[Course]) -> Backfilled:
        """Run every window that is not done, in order, under one fire."""
        engine, fires, fire_id = self.engine, Fires(self.engine.profile.database), self.engine.chance.fire_id()
        holder = engine.leases.holder
        engine.leases.register()
        fires.fail_dead(but=fire_id)
        discard_ended(engine.profile.scratch, ended=self._over)
        fires.request(fire_id, pipeline_id=self.pipeline.id)
        fires.begin(fire_id, holder=holder)
        plans = Plans(engine.profile.database)
        queue = [(course.table, planned) for course in courses for planned in plans.plan(course.table, course.span)]
        try:
            ended = Backfilled(fire_id, FireState.RUNNING, tuple(self._chunks(queue, plans, fire_id)), len(queue))
            for course in courses:
                reconciled(engine, course.table.name)
        except BaseException as raised:
            state = FireState.CANCELED if isinstance(raised, KeyboardInterrupt) else FireState.FAILED
            fires.end(fire_id, state, holder=holder)
            raise
        return self._ended(ended, fires)

    def _over(self, run_id: str) -> bool:
        run = self.engine.runs.get(run_id)
        return run is not None and run.status.terminal

    def _chunks(self, queue: Sequence[tuple[Table, Planned]], plans: Plans, fire_id: str) -> Iterator[Chunked]:
        done = sum(planned.state is ChunkState.DONE for _, planned in queue)
        for table, planned in queue:
            if planned.state is ChunkState.DONE:
                yield Chunked(planned, done=True)
                continue
            if self.engine.stopping.reason is not None:
                return
            chunk = self._chunk(table, planned, plans, fire_id)
            done += chunk.done
            self.watcher.chunked(chunk, done=done, total=len(queue))
            yield chunk
            if _ends_all(chunk):
                return

    def _chunk(self, table: Table, planned: Planned, plans: Plans, fire_id: str) -> Chunked:
        try:
            if marker := settled(self.engine, planned):
                return Chunked(planned, done=True, rows=marker.rows)
            run = ChunkRun(self.engine, table, planned, plans=plans, secrets=self.secrets, watcher=self.watcher)
            self._sit_out(planned.chunk.scope)
            row = run.run(self.engine.chance.run_id(), fire_id=fire_id)
        except ContextfulError as refusal:
            return Chunked(planned, done=False, refusal=refusal)
        return Chunked(planned, done=row.status is RunStatus.SUCCESS, rows=row.rows, run=row)

    def _sit_out(self, scope: str) -> None:
        """Sit a live owner out before anything is opened, as long as there is patience."""
        engine = self.engine
        while (
            (owner := engine.owners.read(scope)) and owner.attempt and owner.lease_until > engine.profile.database.now()
        ):
            engine.stopping.check()
            if not self.await_live(ExecutionLive(scope=scope, attempt=owner.attempt, lease_until=owner.lease_until)):
                return

    def _ended(self, ended: Backfilled, fires: Fires) -> Backfilled:
        holder, chunks = self.engine.leases.holder, ended.chunks
        if any(chunk.run and chunk.run.status is RunStatus.WAITING for chunk in chunks):
            fires.leave(ended.fire_id, holder=holder)
            return ended
        if self.engine.stopping.reason is not None or any(_pipeline_stopped(chunk) for chunk in chunks):
            state = FireState.CANCELED
        else:
            state = FireState.COMPLETED if ended.done == ended.total else FireState.FAILED
        fires.end(ended.fire_id, state, holder=holder)
        return Backfilled(ended.fire_id, state, chunks, ended.total)


def spans_of(
    engine: Engine, tables: Sequence[Table], start: str, end: str, *, every: str | None
) -> list[tuple[Table, Span]]:
    """The span of each table, spelled for its clock.

    Raise `BackfillNeedsIncremental` naming every table without one, `BackfillWindowUnusable`.
    """
    if lacking := [table.name for table in tables if table.incremental is None]:
        raise BackfillNeedsIncremental(tables=", ".join(lacking))
    found = []
    for table in tables:
        marker = reconciled(engine, table.name)
        found.append((table, spanned(table, start, end, every=every, position=marker.position if marker else None)))
    return found


def _refuse_many(engine: Engine, spans: Sequence[tuple[Table, Span]]) -> None:
    ceiling = engine.profile.max_steps
    limit, count = MOST if ceiling is None else ceiling, 0
    for table, span in spans:
        count += sum(1 for _ in islice(span.windows(), max(limit, MOST) + 1))
        if count > limit:
            raise BackfillStepsExceeded(table=table.name, chunks=count, limit=limit)


def _ends_all(chunk: Chunked) -> bool:
    """Whether what is left of the fire is left: it is stopped (run.cancel.two-grains), or a vendor has it wait."""
    if isinstance(chunk.refusal, Canceled) or _pipeline_stopped(chunk):
        return True
    return chunk.run is not None and chunk.run.status is RunStatus.WAITING


def _pipeline_stopped(chunk: Chunked) -> bool:
    return bool(chunk.run and chunk.run.stop and chunk.run.stop["scope"] == StopScope.PIPELINE)
