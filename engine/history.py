"""Run history in the store: the reserved table `_runs`, one immutable object an appended row.

Two rows a run, one at plan and one at commit; where a phase has several, the latest wins (run.record.reserved-table).
No sequence is shared, so engines that append at the same instant never contend; a pass of its own folds what lies apart
(engine.folds).
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from engine.errors import HistoryBoundSpelling, StorageUnusable
from engine.folds import Folds
from engine.runs import RunRow
from engine.shapes import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.ports import Objects
    from engine.runs import Runs

RESERVED: Final = "_runs"

DESCRIBED: Final = 5
"""Rows a listing answers with by default (run.record.describe-window)."""

DESCRIBED_AT_MOST: Final = 500
EXPORTED: Final = 500
"""Rows an export answers with by default (run.record.export-ceiling)."""

EXPORTED_AT_MOST: Final = 5000

_log = logging.getLogger("contextful")

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_NAME: Final = re.compile(rf"{RESERVED}/\d+-(?P<run_id>.+)-(?P<phase>plan|commit)-(?P<at>\d+)\.json")
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")


@dataclass(frozen=True, slots=True)
class Appended:
    """One row of the reserved table: the run as it stood at the instant `at`."""

    run: RunRow
    phase: Phase
    at: int


class History:
    """Appends run rows to the store and reads them back, those that a pass has folded among them."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._folds = Folds(objects, f"{RESERVED}/")

    def append(self, row: RunRow, *, phase: Phase, at: int) -> None:
        """Append `row` as it stands at the instant `at`, or at the next free one: no row takes another's place.

        A pass that fails leaves the row appended; the next append brings it again (run.record.record-folds).
        """
        content = row.record.encode("utf-8", "surrogatepass")
        started = f"{RESERVED}/{row.started_at:013d}-{row.run_id}-{phase}"
        while not self._objects.create(f"{started}-{at:013d}.json", content):
            at += 1
        try:
            self._folds.appended()
        except Exception as failure:  # whatever a pass stumbles over, the row stands and the run goes on
            _log.warning("the rows of %s are not folded, the next run tries again: %s", RESERVED, failure)

    def appended(self, *, as_of: int | None = None) -> list[Appended]:
        """The latest row of each run and phase by start, of those appended up to `as_of` (run.record.time-travel)."""
        latest: dict[tuple[str, str], tuple[int, str]] = {}
        records = self._folds.records()
        for name in records:
            run_id, phase, at = _parsed(name)
            if as_of is None or at <= as_of:
                latest[run_id, phase] = max(latest.get((run_id, phase), (-1, "")), (at, name))
        newest = sorted(((name, phase, at) for (_, phase), (at, name) in latest.items()), key=lambda row: row[0])
        return [Appended(_decoded(records[name], name=name), Phase(phase), at) for name, phase, at in newest]

    def rows(self) -> Iterator[RunRow]:
        """Every recorded run as its latest row, by start."""
        latest: dict[str, RunRow] = {}
        for row in sorted(self.appended(), key=lambda row: row.phase is Phase.COMMIT):
            latest[row.run.run_id] = row.run
        yield from sorted(latest.values(), key=lambda run: (run.started_at, run.run_id))

    def rebuild(self, runs: Runs) -> int:
        """Restore the catalog's run rows; tell how many were recorded (run.record.rebuild-restores-history)."""
        count = 0
        for row in self.rows():
            runs.restore(row)
            count += 1
        return count


def lower_bound(text: str | None) -> int:
    """The instant a window begins at; 0 without a bound (run.record.bound-spelling)."""
    if text is None:
        return 0
    if not (_DATE.fullmatch(text) or _INSTANT.fullmatch(text)):
        raise HistoryBoundSpelling(found=text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise HistoryBoundSpelling(found=text) from None
    return int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)


def _parsed(name: str) -> tuple[str, str, int]:
    found = _NAME.fullmatch(name)
    if found is None:
        raise StorageUnusable(place=name, reason="no run row has such a name")
    return found["run_id"], found["phase"], int(found["at"])


def _decoded(record: bytes, *, name: str) -> RunRow:
    try:
        return RunRow.from_record(record.decode("utf-8", "surrogatepass"))
    except (AttributeError, KeyError, TypeError, ValueError) as cause:
        raise StorageUnusable(place=name, reason=f"it is no run row ({cause})").advising(
            "bring it back from a copy of the corpus; without one remove it: the history of that run alone is gone"
        ) from cause
