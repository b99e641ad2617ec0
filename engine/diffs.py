"""What columns lost on their way, joined into run history from where it is kept: the manifest of the run's commit.

Only a commit publishes such events, so a stage that failed has none (run.record.schema-diff-home).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from engine.corpus.marker import find, tail
from engine.sql import call

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.corpus.marker import Marker
    from engine.profile import Profile
    from engine.runs import RunRow

Diffs = dict[str, list[dict[str, Any]]]
"""Events by run id, each `{table, path, source, landed, reason}` (run.record.schema-diff-shape)."""


def joined(profile: Profile, runs: Iterable[RunRow]) -> Diffs:
    """The events of `runs`, oldest commit first; a run without any has an empty list.

    Of each table no commit is read that is older than the oldest of its runs.
    """
    runs = list(runs)
    since: dict[str, int] = {}
    for run in runs:
        if run.table is not None:
            since[run.table] = min(since.get(run.table, run.started_at), run.started_at)
    found: Diffs = defaultdict(list)
    for table, oldest in since.items():
        for marker in reversed(list(_back_to(profile, table, oldest))):
            found[marker.by.run_id] += [{"table": table} | event for event in marker.downgrades]
    return {run.run_id: found[run.run_id] for run in runs}


def _back_to(profile: Profile, table: str, instant: int) -> Iterator[Marker]:
    """The commits of `table` from the newest back to `instant`."""
    cached = profile.database.run(call("read_cursor", table_name=table))[0]
    marker = tail(profile.objects, table, hint=cached[0][1] if cached else 0)
    while marker is not None and marker.committed_at >= instant:
        yield marker
        marker = find(profile.objects, table, marker.seq - 1) if marker.seq > 1 else None
