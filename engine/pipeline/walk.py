"""One run's walk over its source: pull after pull, each asked live or replayed from the journal.

A live pull is shaped, guarded and recorded before anything else happens to it; what lands is always what the recorded
bytes decode to, so a resumed run lands the bytes of an uninterrupted one (run.journal.replay-lands).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from engine import cursors
from engine.errors import SnapshotIncomplete, SourceLoop, SourceShape
from engine.pipeline import clocks
from engine.pipeline.recording import PullMeta, decode, encode, facts
from engine.pipeline.shape import shape, taken
from engine.pipeline.source import Ask
from engine.pipeline.standing import carry_wait
from engine.secrets import unmask
from engine.shapes import EntryKey, Pull, WriteMode, canonical_json, domain_hash

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import pyarrow as pa

    from engine.cursors import Admission
    from engine.execution.call import Call
    from engine.execution.held import Held
    from engine.meters import Pace
    from engine.pipeline.chunks import Window
    from engine.pipeline.declaration import Table
    from engine.pipeline.protect import Protection
    from engine.pipeline.source import Secrets, Source
    from engine.secrets import SecretGuard

_log = logging.getLogger("contextful")


@dataclass(frozen=True, slots=True)
class Landing:
    """One pull as it lands: the recorded bytes and how many rows they hold, or neither for an empty pull.

    `asked` is the position it was asked at, `before` the frontier before it.
    """

    number: int
    recorded: bytes | None
    rows: int
    meta: PullMeta
    replayed: bool
    asked: Any = None
    before: Any = None


@dataclass(slots=True)
class Counts:
    """What a run's walk has left out: rows below the position, and, of its live pulls alone, masked secrets."""

    not_admitted: int = 0
    masked: int = 0


@dataclass(slots=True)
class Walk:
    """The pulls of `table` from `position` on.

    `floor` is the clock value below which nothing lands: the committed watermark's, or as far before it as rows may be
    late. `frontier` is the highest of the watermark and every row fetched so far (run.advance.frontier), `first` how
    many pulls of the execution have landed before this walk. `unchanged` tells that the input was skipped, since it is
    the one at the position (run.advance.skip-unchanged). `window` is a chunk's: what lies outside does not land.
    """

    table: Table
    source: Source
    held: Held
    secrets: Secrets
    guard: SecretGuard
    position: Any
    floor: Any
    protection: Protection
    first: int = 0
    counts: Counts = field(default_factory=Counts)
    frontier: Any = None
    unchanged: bool = False
    window: Window | None = None
    pace: Pace | None = None
    _generator: Iterator[Pull] | None = None
    _reached: str | None = None

    def landings(self) -> Generator[Landing]:
        """Yield each pull as it lands until the source has no more; closing this closes the source.

        Raise `StepFailed` when a pull's failure stands, `SourceLoop` when a walk leads back to where it has been.
        """
        try:
            yield from self._landings()
        finally:
            self._close()

    def _landings(self) -> Iterator[Landing]:
        asked, visited = self.position, set[str]()
        number = self.first
        if number and self.held.resumed and self.table.incremental:
            carry_wait(self.held.steps, to=self._key(number, asked))
        while True:
            visited.add(canonical_json(asked))
            landing = replace(self._pull(number, asked), asked=asked, before=self.frontier)
            if landing.meta.unchanged:
                self.unchanged = True
                return
            self._advance_frontier(landing)
            self.counts.not_admitted += landing.meta.not_admitted
            yield landing
            number += 1
            if not self._goes_on(landing, asked, visited):
                return
            asked = landing.meta.position

    def _goes_on(self, landing: Landing, asked: Any, visited: set[str]) -> bool:
        """Whether another pull follows (run.advance.walk-position)."""
        meta = landing.meta
        if not meta.more:
            return False
        if canonical_json(meta.position) not in visited:
            return True
        if self.table.incremental and landing.recorded is None and meta.position == asked:
            return False
        raise SourceLoop(place=f"{self.table.name}, pull {landing.number}", position=cursors.shown(meta.position))

    def _pull(self, number: int, asked: Any) -> Landing:
        if not self.source.journaled:
            return self._unjournaled(number, asked)
        live: list[tuple[int, PullMeta]] = []

        def effect(_: Call) -> bytes | None:
            recorded, rows, meta = self._asked(number, asked)
            live.append((rows, meta))
            return recorded

        outcome = self.held.steps.run(
            self._key(number, asked), effect, schedule=self.table.schedule, likely_recorded=self.held.resumed
        )
        if outcome.value is None:
            return Landing(number, None, *live[-1], replayed=False)
        if outcome.replayed:
            batch, meta = decode(outcome.value)
            rows = batch.num_rows
        else:
            rows, meta = live[-1][0], facts(outcome.value)
        self.protection.admit(meta, self.held.attempt)
        return Landing(number, outcome.value, rows, meta, outcome.replayed)

    def _unjournaled(self, number: int, asked: Any) -> Landing:
        """A pull of a source that opted out: its position cannot name its content, so a replay could not either."""
        read: list[tuple[bytes | None, int, PullMeta]] = []

        def effect(_: Call) -> None:
            read.append(self._asked(number, asked))

        self.held.steps.run(self._key(number, asked), effect, schedule=self.table.schedule)
        return Landing(number, *read[-1], replayed=False)

    def _asked(self, number: int, asked: Any) -> tuple[bytes | None, int, PullMeta]:
        """Ask the source for one pull: its bytes to record, None for an empty one, its rows and its facts."""
        batch, meta = self.held.apart(partial(self._live, number, asked))
        return (None, 0, meta) if batch is None else (encode(batch, meta), batch.num_rows, meta)

    def _live(self, number: int, asked: Any) -> tuple[pa.RecordBatch | None, PullMeta]:
        """Ask the source for one pull; what it answers, fit to be recorded. No batch for an empty pull."""
        if self.pace is not None:
            self.pace.step()
        with self.protection.reading():
            return self._read(number, asked)

    def _read(self, number: int, asked: Any) -> tuple[pa.RecordBatch | None, PullMeta]:
        """One pull: asked, shaped, admitted, guarded and prepared, in this order."""
        pull = self._next(asked)
        if pull.unchanged:
            return None, self._skipped(pull, number)
        if self.table.write_mode is WriteMode.REPLACE and not (pull.more or pull.snapshot_complete):
            # Before it is recorded: a replay would find the inventory as incomplete as it was.
            raise SnapshotIncomplete(table=self.table.name)
        place = f"{self.table.name}, pull {number}"
        position, masked = self.guard.position(pull.position)
        self.counts.masked += masked
        declared = pull.types | {name: c.type for name, c in self.table.columns.items() if c.type}
        with clocks.refusing_mixtures(self.table):
            shaped = shape(
                pull.rows,
                declared=declared,
                table=self.table.name,
                place=place,
                protected=self.protection.treatments,
            )
        bounds = {"floor": self.floor, "frontier": self.frontier, "window": self.window}
        verdict = clocks.judged(shaped, table=self.table, place=place, **bounds)
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
        self.counts.masked += masked
        return self.protection.batch(guarded, shaped.schema), meta

    def _skipped(self, pull: Pull, number: int) -> PullMeta:
        """What is left of a pull that skips its input. Raise `SourceShape` for one beside anything that lands."""
        if number != self.first or pull.more or len(pull.rows):
            place, found = f"{self.table.name}, pull {number}", "unchanged beside rows or other pulls"
            expected = "the walk's only pull, without rows"
            raise SourceShape(place=place, path="unchanged", found=found, expected=expected)
        return PullMeta(unchanged=True)

    def _admitted(self, batch: pa.RecordBatch, verdict: Admission | None) -> pa.RecordBatch:
        """The rows that land."""
        if verdict is None or verdict.admitted is None:
            return batch
        return taken(batch, verdict.admitted)

    def _advance_frontier(self, landing: Landing) -> None:
        if landing.meta.clocks is not None:
            self.frontier = cursors.later(self.frontier, landing.meta.clocks[1])

    def _next(self, asked: Any) -> Pull:
        """The source's next pull at `asked`, from the running generator where it stands there, else from a new one."""
        wanted = canonical_json(asked)
        fresh = self._generator is None or self._reached != wanted
        if fresh:
            ask = Ask(
                client=lambda: self.held.outbound.client,
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

    def _close(self) -> None:
        """Let the source close what it has open, on the thread it opened it on."""
        generator, self._generator = self._generator, None
        close = getattr(generator, "close", None)
        if close is None:
            return
        try:
            self.held.apart(close)
        except Exception as raised:  # whatever a source raises while it closes, what it gave before stands
            _log.warning("the source of %s did not close: %s", self.table.name, raised)

    def _key(self, number: int, asked: Any) -> EntryKey:
        """Counts every pull of the execution; the position alone would collide where two pages share it."""
        asked_text, floor_text = canonical_json(asked), canonical_json(self.floor)
        hashed = domain_hash("contextful.pull", self.table.name, asked_text, floor_text)
        return EntryKey(self.held.attempt.execution_id, f"pull:{number}", hashed)
