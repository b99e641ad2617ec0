"""One run of one table: open its owner, walk the source, stage every pull, commit, retire the owner.

reconcile ─▶ open ─▶ pull ⟲ stage ⟲ checkpoint ─▶ commit ─▶ retire
│      ▲         │
│      └─ wait ◀─┤
└── failure ─────┴─▶ discard the stage; release the owner, or retire it where a replay
would only fail again or nothing was recorded
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from engine import cursors, lateness
from engine.corpus.marker import require_whole
from engine.corpus.schema import Schema
from engine.errors import (
    Canceled,
    ContextfulError,
    CursorFieldMismatch,
    ExecutionSuperseded,
    PrimaryKeyMissing,
    RunCheckpointIdTooLong,
    RunStagedBytesExceeded,
    SchemaIncompatible,
    StorageFailure,
    Waiting,
)
from engine.execution.failures import failure_of
from engine.meters import paced
from engine.pins import Pins
from engine.pipeline.attempts import closed_on
from engine.pipeline.manifest import own_secrets
from engine.pipeline.protect import Protection
from engine.pipeline.publication import Publication
from engine.pipeline.reading import Reader
from engine.pipeline.reconcile import caching, reconciled, scope_of
from engine.pipeline.sources import open_source
from engine.pipeline.stage import Stage
from engine.pipeline.walk import Walk
from engine.shapes import CursorKind, RunStatus, canonical_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.corpus.marker import Marker
    from engine.execution.held import Held
    from engine.host import Engine
    from engine.pipeline.chunks import Window
    from engine.pipeline.declaration import Table
    from engine.pipeline.source import Secrets
    from engine.pipeline.walk import Landing
    from engine.ports import Call
    from engine.runs import RunRow


class Watcher(Protocol):
    """Hears how a run gets on; what it does never stops the run."""

    def opened(self, run: RunRow) -> None:
        """A run has opened."""

    def landed(self, run: RunRow, landing: Landing) -> None:
        """A pull is staged."""

    def closed(self, run: RunRow) -> None:
        """A run has ended, well or not."""


FINAL: Final = (RunStagedBytesExceeded, RunCheckpointIdTooLong, PrimaryKeyMissing)
"""What the recorded pulls of an execution meet again on every replay."""


@dataclass(slots=True)
class _Progress:
    """What the run has landed so far; `recorded` counts pulls the journal holds."""

    batches: int = 0
    recorded: int = 0
    replayed: int = 0
    skipped: int = 0
    last_position: Any = None
    staging_failed: bool = False


class TableRun:
    """Runs `table` once under `run_id`."""

    def __init__(self, engine: Engine, table: Table, *, secrets: Secrets, watcher: Watcher) -> None:
        self._engine = engine
        self._table = table
        self._secrets = own_secrets(table.source, secrets)
        self._watcher = watcher
        self._source = open_source(table)
        self._protection = Protection.of(table, self._source, pepper=engine.settings.pepper)
        self._scope = scope_of(table.name)
        self._window: Window | None = None
        self._kind = cursors.kind_of(incremental=table.incremental, declared=self._source.cursor_kind)

    def run(self, run_id: str, *, fire_id: str, earlier: Sequence[RunRow] = ()) -> RunRow:
        """Run the table and return its closed row; a failure is on the row.

        `earlier` are the attempts at the same request, none of which had done it when it was looked at: where one has
        by now, this one reads nothing, closes on that, and the row of whichever did it is returned.
        Raise what refuses the run before it holds the table: `ExecutionLive`, `ExecutionPinMismatch`,
        `CursorFieldMismatch`, `LatenessUnmeasurable`, `CommitMissing`.
        """
        table, engine = self._table, self._engine
        require_whole(engine.profile.objects, table.name)
        stored = self._position_of(reconciled(engine, table.name))
        self._floor(stored)
        run = engine.new_run(
            run_id,
            plan_ref=table.content_hash,
            connector=self._source.connector,
            fire_id=fire_id,
            pipeline_id=table.pipeline_id,
            table=table.name,
            chunk=self._window.text if self._window else None,
        )
        held = engine.hold(self._scope, self._pins(stored), run=run)
        self._watcher.opened(held.run)
        try:
            # One that goes on is another's run, which waited for its own request.
            if held.attempt.run_id == run_id and (done := closed_on(engine, held, table.name, earlier=earlier)):
                self._watcher.closed(held.run)
                return done
            # Another attempt may have committed and retired between the look above and the hold: now it stands still.
            base = reconciled(engine, table.name)
            walk, publication = self._prepared(held, base)
        except Exception as raised:
            held.release(held.ended(RunStatus.FAILED, failure=failure_of(raised)))
            raise
        row = self._land(walk, publication)
        self._watcher.closed(row)
        return row

    def _prepared(self, held: Held, base: Marker | None) -> tuple[Walk, Publication]:
        stored = self._position_of(base)
        start = None if self._kind is CursorKind.MONOTONIC else stored
        floor, frontier = self._floor(stored), self._watermark(stored)
        standing = base.schema if base else Schema()
        scratch = self._engine.profile.scratch
        stage = Stage(scratch, run_id=held.attempt.run_id, table=self._table.name, standing=standing)
        publication = Publication(self._engine, self._table, self._source, held, stage, base)
        publication.whole = self._window is not None
        publication.resume()
        reader = Reader(
            self._table,
            self._source,
            held.outbound,
            self._secrets,
            self._engine.settings.guard,
            self._protection,
            floor=floor,
            window=self._window,
            pace=paced(self._engine.profile.database, self._table.meter),
            first=publication.pulls,
        )
        return Walk(reader, held, start, frontier), publication

    def _land(self, walk: Walk, publication: Publication) -> RunRow:
        progress = _Progress()
        try:
            self._stage_all(walk, publication, progress)
            return self._publish(walk, publication, progress)
        except KeyboardInterrupt:
            self._fail(walk, publication, progress, failure=Canceled("interrupted"))
            raise
        except Waiting as wait:
            return self._park(walk, publication, progress, wait)
        except Exception as raised:  # every failure past run open is recorded on its row
            return self._fail(walk, publication, progress, failure=failure_of(raised))

    def _pins(self, stored: Any) -> Pins:
        return Pins(
            self._table.content_hash,
            identities=self._protection.identities,
            connector=self._source.connector,
            input_hash=canonical_json(stored),
        )

    def _position_of(self, marker: Marker | None) -> Any:
        return marker.position if marker else None

    def _watermark(self, stored: Any) -> Any:
        try:
            return cursors.since(stored, table=self._table.name, field=self._table.incremental)
        except CursorFieldMismatch as mismatch:
            again = f"contextful pipeline reset {self._table.pipeline_id} --table {self._table.name}"
            raise mismatch.advising(f"restore the declaration, or start over: {again}") from None

    def _floor(self, stored: Any) -> Any:
        """Where a poll reads from: the watermark, or as far before it as rows may be late."""
        table, window = self._table, self._table.allowed_lateness_ms
        return lateness.floor(self._watermark(stored), window_ms=window, table=table.name, field=str(table.incremental))

    def _stage_all(self, walk: Walk, publication: Publication, progress: _Progress) -> None:
        with closing(walk.landings()) as landings:
            for landing in landings:
                progress.batches += 1
                progress.skipped += landing.meta.skipped
                progress.last_position = landing.meta.position
                if landing.recorded is not None:
                    progress.recorded += self._source.journaled
                    progress.replayed += landing.replayed
                    self._stage(publication, landing, progress)
                self._watcher.landed(self._row(walk, publication, progress), landing)

    def _stage(self, publication: Publication, landing: Landing, progress: _Progress) -> None:
        if landing.recorded is None or landing.rows == 0:
            return
        publication.make_room(landing, size=len(landing.recorded))
        try:
            publication.stage.add_decoded(landing.recorded, rows=landing.rows, meta=landing.meta, pull=landing.number)
        except SchemaIncompatible:
            progress.staging_failed = True
            raise

    def _publish(self, walk: Walk, publication: Publication, progress: _Progress) -> RunRow:
        marker = None
        if not walk.unchanged:
            marker = publication.publish(
                position=self._position(walk, progress), pulls=walk.reader.first + progress.batches
            )
        held = publication.held
        row = replace(held.ended(RunStatus.SUCCESS), **self._counts(walk, progress), **publication.landed)
        held.retire(row, also=self._settling(held, marker))
        publication.stage.leave()
        return held.run

    def _settling(self, held: Held, marker: Marker | None) -> tuple[Call, ...]:  # noqa: ARG002 - a chunk's names its attempt
        """What joins the batch that retires the owner of `held`, whose commit is `marker`."""
        return () if marker is None else (caching(self._table.name, marker),)

    def _position(self, walk: Walk, progress: _Progress) -> Any:
        """The position to commit: the frontier of a watermark, else what the source's last pull carried."""
        if self._table.incremental is None:
            return progress.last_position
        return None if walk.frontier is None else cursors.watermark(self._table.incremental, walk.frontier)

    def _park(self, walk: Walk, publication: Publication, progress: _Progress, wait: Waiting) -> RunRow:
        """Close the attempt until the instant of `wait`; what is recorded is staged anew then."""
        row = replace(publication.held.waiting(wait), **self._counts(walk, progress), **publication.landed)
        # First: once parked, the run and the folder named after it are whoever's resumes it.
        publication.stage.leave()
        try:
            publication.held.park(row)
        except ExecutionSuperseded as superseded:
            return self._fail(walk, publication, progress, failure=superseded)
        return row

    def _fail(self, walk: Walk, publication: Publication, progress: _Progress, *, failure: ContextfulError) -> RunRow:
        """Close the attempt with its failure; the owner stays pending where a resume has something to replay."""
        held = publication.held
        failure = self._superseded(held) or failure
        publication.stage.leave()
        status = RunStatus.CANCELED if isinstance(failure, Canceled) else RunStatus.FAILED
        row = replace(held.ended(status, failure=failure), **self._counts(walk, progress), **publication.landed)
        # A recorded pull that the schema or the limits refuse is refused again on every replay.
        done_for = progress.staging_failed or isinstance(failure, FINAL)
        if not isinstance(failure, ExecutionSuperseded) and (done_for or not self._wrote(publication, progress)):
            held.retire(row)
        else:
            held.release(row)
        return row

    def _wrote(self, publication: Publication, progress: _Progress) -> bool:
        """Whether the execution has a batch, recorded or landed, that a resume goes on from (run.own.pin-release)."""
        if progress.recorded or publication.committed:
            return True
        entries = self._engine.profile.journal.entries(publication.held.attempt.execution_id)
        return any(entry.recorded for entry in entries)

    def _superseded(self, held: Held) -> ExecutionSuperseded | None:
        """What an attempt that lost its owner fails with, whatever it stumbled over; None too where no store tells."""
        try:
            with suppress(StorageFailure):
                self._engine.owners.check(held.attempt)
        except ExecutionSuperseded as superseded:
            return superseded
        return None

    def _row(self, walk: Walk, publication: Publication, progress: _Progress) -> RunRow:
        rows, size = publication.rows + publication.stage.rows, publication.bytes + publication.stage.size
        return replace(publication.held.run, **self._counts(walk, progress), rows=rows, bytes=size)

    def _counts(self, walk: Walk, progress: _Progress) -> dict[str, Any]:
        return {
            "batches": progress.batches,
            "skipped": progress.skipped,
            "replayed": progress.replayed,
            # A pull is live once, and the attempt may have waited since: its row goes on counting.
            "not_admitted": walk.held.run.not_admitted + walk.not_admitted,
            "masked": walk.held.run.masked + walk.reader.masked,
        }
