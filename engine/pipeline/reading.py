"""The reading of one pull: asked of the source, and made fit to be recorded before anything else happens to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine import cursors
from engine.errors import SnapshotIncomplete, SourceShape
from engine.pipeline import clocks
from engine.pipeline.recording import PullMeta
from engine.pipeline.shape import shape, taken
from engine.pipeline.source import Ask
from engine.secrets import unmask
from engine.shapes import Pull, WriteMode, canonical_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from engine.cursors import Admission
    from engine.execution.outbound import Outbound
    from engine.meters import Pace
    from engine.pipeline.chunks import Window
    from engine.pipeline.declaration import Table
    from engine.pipeline.protect import Protection
    from engine.pipeline.shape import Shaped
    from engine.pipeline.source import Secrets, Source
    from engine.secrets import SecretGuard


@dataclass(slots=True)
class Reader:
    """Reads the pulls of `table` from `source`, one at a time.

    `floor` is the clock value below which nothing lands: the committed watermark's, or as far before it as rows may be
    late. `window` is a chunk's: what lies outside does not land. `first` is how many pulls of the execution have landed
    before this walk. `masked` counts the secrets that were masked.
    """

    table: Table
    source: Source
    outbound: Outbound
    secrets: Secrets
    guard: SecretGuard
    protection: Protection
    floor: Any
    window: Window | None
    pace: Pace | None
    first: int
    masked: int = 0
    _generator: Iterator[Pull] | None = None
    _reached: str | None = None

    def read(self, number: int, asked: Any, *, frontier: Any) -> tuple[pa.RecordBatch | None, PullMeta]:
        """Pull `number`, asked at `asked` and fit to be recorded; no batch for an empty one.

        `frontier` is the highest clock value that was fetched before it.
        """
        if self.pace is not None:
            self.pace.step()
        with self.protection.reading():
            return self._read(number, asked, frontier)

    def closing(self) -> Callable[[], None] | None:
        """What closes what the source has open, on the thread that read; None where nothing is open."""
        generator, self._generator = self._generator, None
        return getattr(generator, "close", None)

    def _read(self, number: int, asked: Any, frontier: Any) -> tuple[pa.RecordBatch | None, PullMeta]:
        """One pull: asked, shaped, admitted, guarded and prepared, in this order."""
        pull, place = self._next(asked), f"{self.table.name}, pull {number}"
        if pull.unchanged:
            return None, self._skipped(pull, number, place=place)
        if self.table.write_mode is WriteMode.REPLACE and not (pull.more or pull.snapshot_complete):
            # Before it is recorded: a replay would find the inventory as incomplete as it was.
            raise SnapshotIncomplete(table=self.table.name)
        position, masked = self.guard.position(pull.position)
        self.masked += masked
        shaped = self._shaped(pull, place=place)
        verdict = clocks.judged(
            shaped, table=self.table, place=place, floor=self.floor, frontier=frontier, window=self.window
        )
        meta = PullMeta(
            position=position,
            more=pull.more,
            complete=pull.snapshot_complete,
            types=dict(pull.types),
            skipped=pull.skipped,
            schema=shaped.schema,
            downgrades=shaped.downgrades,
            clocks=(cursors.stored(verdict.lowest), cursors.stored(verdict.highest)) if verdict else None,
            not_admitted=verdict.not_admitted if verdict else 0,
        )
        meta = self.protection.meta(meta)
        if shaped.batch.num_rows == 0:
            return None, meta
        guarded, masked = self.guard.batch(self._admitted(shaped.batch, verdict))
        self.masked += masked
        return self.protection.batch(guarded, shaped.schema), meta

    def _skipped(self, pull: Pull, number: int, *, place: str) -> PullMeta:
        """What is left of a pull that skips its input. Raise `SourceShape` for one beside anything that lands."""
        if number != self.first or pull.more or len(pull.rows):
            found, expected = "unchanged beside rows or other pulls", "the walk's only pull, without rows"
            raise SourceShape(place=place, path="unchanged", found=found, expected=expected)
        return PullMeta(unchanged=True)

    def _shaped(self, pull: Pull, *, place: str) -> Shaped:
        declared = pull.types | {name: c.type for name, c in self.table.columns.items() if c.type}
        with clocks.refusing_mixtures(self.table):
            return shape(
                pull.rows,
                declared=declared,
                table=self.table.name,
                place=place,
                protected=self.protection.treatments,
            )

    def _admitted(self, batch: pa.RecordBatch, verdict: Admission | None) -> pa.RecordBatch:
        """The rows that land."""
        if verdict is None or verdict.admitted is None:
            return batch
        return taken(batch, verdict.admitted)

    def _next(self, asked: Any) -> Pull:
        """The source's next pull at `asked`, from the running generator where it stands there, else from a new one."""
        wanted = canonical_json(asked)
        fresh = self._generator is None or self._reached != wanted
        if fresh:
            ask = Ask(
                client=lambda: self.outbound.client,
                position=unmask(asked, secrets=self.secrets),
                since=self.floor,
                until=self.window.end if self.window else None,
                secrets=self.secrets,
            )
            self._generator = iter(self.source.pulls(ask))
        generator, self._generator = self._generator, None
        pull = next(generator, None) if generator is not None else None
        if pull is None and not fresh:
            # A source may give one pull and return: it goes on where that pull said there is more.
            return self._next(asked)
        if pull is None:
            # Nothing was said, so nothing has moved: a position dropped here would land everything again.
            return Pull(position=asked)
        position, _ = self.guard.position(pull.position)
        try:
            self._reached = canonical_json(position)
        except (TypeError, ValueError):
            place, expected = f"{self.table.name}, a pull", "a JSON value: finite numbers, text, lists, mappings"
            found = cursors.shown(position)
            raise SourceShape(place=place, path="position", found=found, expected=expected) from None
        self._generator = generator
        return pull
