"""Windows on the run history: what leaves the machine as a listing or an export, over one run projection.

A window has an inclusive lower bound on the start instant and a ceiling of rows, newest first
(run.record.history-window). It is read from the catalog, one query a pipeline that was asked for; no bucket is touched
(run.record.history-export).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.clock import instant
from engine.history import DESCRIBED, DESCRIBED_AT_MOST, EXPORTED, EXPORTED_AT_MOST, lower_bound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.runs import RunRow, Runs


@dataclass(frozen=True, slots=True)
class Window:
    """The runs of a window; `truncated` tells that more lie inside it than its ceiling let out."""

    runs: tuple[RunRow, ...]
    pipelines: tuple[str, ...]
    since: int
    limit: int
    truncated: bool

    @property
    def shown(self) -> dict[str, Any]:
        """The window as an answer echoes it (run.record.truncation-flag)."""
        return {"since": instant(self.since) if self.since else None, "limit": self.limit, "pipelines": self.pipelines}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a listing: a run, and how many runs in all it stands for."""

    run: RunRow
    count: int


@dataclass(frozen=True, slots=True)
class Listing:
    """A window as people read it; `truncated` tells that more lies behind its last line."""

    lines: tuple[Line, ...]
    limit: int
    truncated: bool


def listed(runs: Runs, *, pipelines: Sequence[str], since: str | None, limit: int | None) -> Listing:
    """The describe surface's window in lines: runs of one scope that were turned away in a row share one.

    Whoever starts work every minute on what one long run holds leaves a row each time, and all of them together tell
    one thing. Of a window's newest rows the ceiling's worth is read. Raise `HistoryBoundSpelling` as `described`.
    """
    ceiling = min(limit or DESCRIBED, DESCRIBED_AT_MOST)
    window = _window(runs, pipelines=pipelines, since=since, limit=DESCRIBED_AT_MOST)
    lines = _lines(window.runs)
    return Listing(tuple(lines[:ceiling]), ceiling, truncated=window.truncated or len(lines) > ceiling)


def described(runs: Runs, *, pipelines: Sequence[str], since: str | None, limit: int | None) -> Window:
    """The describe surface's window: 5 rows by default, never more than 500 (run.record.describe-window).

    Raise `HistoryBoundSpelling` for a bound in another spelling than the two admitted.
    """
    return _window(runs, pipelines=pipelines, since=since, limit=min(limit or DESCRIBED, DESCRIBED_AT_MOST))


def exported(runs: Runs, *, pipelines: Sequence[str], since: str | None, limit: int | None) -> Window:
    """The export's window: 500 rows by default, never more than 5000 (run.record.export-ceiling)."""
    return _window(runs, pipelines=pipelines, since=since, limit=min(limit or EXPORTED, EXPORTED_AT_MOST))


def _window(runs: Runs, *, pipelines: Sequence[str], since: str | None, limit: int) -> Window:
    """Each pipeline's window takes the full ceiling, and the merged result is clipped once.

    One row past the ceiling is asked for: it is what tells that there are more.
    """
    start = lower_bound(since)
    asked: Sequence[str | None] = tuple(dict.fromkeys(pipelines)) or (None,)
    found = (row for each in asked for row in runs.since(start, ceiling=limit + 1, pipeline_id=each))
    newest = sorted(found, key=lambda row: (row.started_at, row.run_id), reverse=True)
    return Window(tuple(newest[:limit]), tuple(pipelines), start, limit, truncated=len(newest) > limit)


def _lines(newest_first: Sequence[RunRow]) -> list[Line]:
    """A line a run, where it is not one of several that the same scope turned away, with no other between them."""
    lines: list[Line] = []
    open_lines: dict[tuple[str | None, ...], int] = {}
    for run in newest_first:
        scope = (run.pipeline_id, run.table, run.chunk, run.host_scope)
        if not run.turned_away:
            open_lines.pop(scope, None)
            lines.append(Line(run, 1))
        elif (at := open_lines.setdefault(scope, len(lines))) == len(lines):
            lines.append(Line(run, 1))
        else:
            lines[at] = Line(lines[at].run, lines[at].count + 1)
    return lines
