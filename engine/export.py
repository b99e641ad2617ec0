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
