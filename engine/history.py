"""Run history in the store: the reserved table `_runs`, one immutable object an appended row.

Two rows a run, one at plan and one at commit; where a phase has several, the latest wins (run.record.reserved-table).
No sequence is shared, so engines that append at the same instant never contend.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from engine.errors import HistoryBoundSpelling, StorageUnusable
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

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_NAME: Final = re.compile(rf"{RESERVED}/\d+-(?P<run_id>.+)-(?P<phase>plan|commit)-\d+\.json")
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")


class History:
    """Appends run rows to the store and reads them back."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def append(self, row: RunRow, *, phase: Phase, at: int) -> None:
        """Append `row` as it stands at the instant `at`."""
        name = f"{RESERVED}/{row.started_at:013d}-{row.run_id}-{phase}-{at:013d}.json"
        self._objects.put(name, row.record.encode("utf-8", "surrogatepass"))

    def rows(self) -> Iterator[RunRow]:
        """Every recorded run as its latest row, by start."""
        latest: dict[str, tuple[bool, str]] = {}
        for name in self._objects.list(f"{RESERVED}/"):
            run_id, phase = _parsed(name)
            latest[run_id] = max(latest.get(run_id, (False, "")), (phase == Phase.COMMIT, name))
        for _, name in latest.values():
            content = self._objects.get(name)
            if content is not None:
                yield RunRow.from_record(content.decode("utf-8", "surrogatepass"))

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


def _parsed(name: str) -> tuple[str, str]:
    found = _NAME.fullmatch(name)
    if found is None:
        raise StorageUnusable(place=name, reason="no run row has such a name")
    return found["run_id"], found["phase"]
