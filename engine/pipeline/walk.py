"""One run's walk over its source: pull after pull, each asked live or replayed from the journal.

A live pull is shaped, guarded and recorded before anything else happens to it; what lands is always what the recorded
bytes decode to, so a resumed run lands the bytes of an uninterrupted one (run.journal.replay-lands).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine import cursors
from engine.errors import SourceLoop
from engine.pipeline.recording import decode, encode, facts
from engine.pipeline.standing import carry_wait
from engine.shapes import EntryKey, canonical_json, domain_hash

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from engine.execution.call import Call
    from engine.execution.held import Held
    from engine.execution.steps import Outcome
    from engine.pipeline.declaration import Table
    from engine.pipeline.reading import Reader
    from engine.pipeline.recording import PullMeta

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
class Walk:
    """The pulls that `reader` reads from `position` on.

    `frontier` is the highest of the watermark and every row fetched so far (run.advance.frontier), `unchanged` tells
    that the input was skipped, since it is the one at the position (run.advance.skip-unchanged), and `not_admitted` how
    many rows lay below the floor.
    """

    reader: Reader
    held: Held
    position: Any
    frontier: Any
    unchanged: bool = False
    not_admitted: int = 0

    def landings(self) -> Generator[Landing]:
        """Yield each pull as it lands until the source has no more; closing this closes the source.

        Raise `StepFailed` when a pull's failure stands, `SourceLoop` when a walk leads back to where it has been.
        """
        try:
            yield from self._landings()
        finally:
            self._close()

    @property
    def _table(self) -> Table:
        return self.reader.table

    def _landings(self) -> Iterator[Landing]:
        asked, visited = self.position, set[str]()
        number = self.reader.first
        if number and self.held.resumed and self._table.incremental:
            carry_wait(self.held.steps, to=self._key(number, asked))
        while True:
            visited.add(canonical_json(asked))
            landing = replace(self._pull(number, asked), asked=asked, before=self.frontier)
            if landing.meta.unchanged:
                self.unchanged = True
                return
            self._advance_frontier(landing)
            self.not_admitted += landing.meta.not_admitted
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
        if self._table.incremental and landing.recorded is None and meta.position == asked:
            return False
        raise SourceLoop(place=f"{self._table.name}, pull {landing.number}", position=cursors.shown(meta.position))

    def _pull(self, number: int, asked: Any) -> Landing:
        if not self.reader.source.journaled:
            return self._unjournaled(number, asked)
        live: list[Landing] = []

        def effect(_: Call) -> bytes | None:
            live.append(self._asked(number, asked))
            return live[-1].recorded

        source, resumed = self.reader.source, self.held.resumed
        outcome = self.held.steps.run(
            self._key(number, asked), effect, schedule=self._table.schedule, likely_recorded=resumed, sends=source.sends
        )
        landing = _replayed(number, outcome) if outcome.replayed else live[-1]
        if landing.recorded is not None:
            self.reader.protection.admit(landing.meta, self.held.attempt)
        return landing

    def _unjournaled(self, number: int, asked: Any) -> Landing:
        """A pull of a source that opted out: its position cannot name its content, so a replay could not either."""
        read: list[Landing] = []

        def effect(_: Call) -> None:
            read.append(self._asked(number, asked))

        self.held.steps.run(self._key(number, asked), effect, schedule=self._table.schedule)
        return read[-1]

    def _asked(self, number: int, asked: Any) -> Landing:
        """Ask the source for one pull: the facts that land are those in its bytes to record; an empty one has no bytes.

        All of it is done on the thread that reads: a page just shaped is compressed while it is in that core's cache.
        """

        def ask() -> Landing:
            batch, meta = self.reader.read(number, asked, frontier=self.frontier)
            if batch is None:
                return Landing(number, None, 0, meta, replayed=False)
            recorded = encode(batch, meta)
            return Landing(number, recorded, batch.num_rows, facts(recorded), replayed=False)

        return self.held.apart(ask)

    def _advance_frontier(self, landing: Landing) -> None:
        if landing.meta.clocks is not None:
            self.frontier = cursors.later(self.frontier, landing.meta.clocks[1])

    def _close(self) -> None:
        """Let the source close what it has open, on the thread it opened it on."""
        close = self.reader.closing()
        if close is None:
            return
        try:
            self.held.apart(close)
        except Exception as raised:  # whatever a source raises while it closes, what it gave before stands
            _log.warning("the source of %s did not close: %s", self._table.name, raised)

    def _key(self, number: int, asked: Any) -> EntryKey:
        """Counts every pull of the execution; the position alone would collide where two pages share it."""
        asked_text, floor_text = canonical_json(asked), canonical_json(self.reader.floor)
        hashed = domain_hash("contextful.pull", self._table.name, asked_text, floor_text)
        return EntryKey(self.held.attempt.execution_id, f"pull:{number}", hashed)


def _replayed(number: int, outcome: Outcome) -> Landing:
    assert outcome.value is not None, "what is replayed has been recorded"
    batch, meta = decode(outcome.value)
    return Landing(number, outcome.value, batch.num_rows, meta, replayed=True)
