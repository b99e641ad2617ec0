"""Rebuilding the catalog: a cache of what the store recorded, restored from it.

Machine state (owners, journal, awakeables) is no cache: a rebuild neither changes nor reconstructs any of it
(run.journal.machine-state).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.corpus import layout
from engine.corpus.marker import tail
from engine.history import History
from engine.pipeline.reconcile import caching
from engine.runs import Runs
from engine.sql import call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.profile import Profile


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild restored: the runs recorded and the tables whose position it read."""

    runs: int
    positions: tuple[str, ...]


def rebuild(profile: Profile, *, declared: Sequence[str]) -> Rebuilt:
    """Restore run history and positions (run.record.rebuild-restores-history).

    The tables are those `declared` and those of the corpus; a table without a commit loses its cached position.
    """
    runs = History(profile.objects).rebuild(Runs(profile.database))
    found = {layout.table_of(name) for name in profile.objects.list("")}
    positions = []
    for table in sorted({*declared, *filter(layout.usable, found)}):
        newest = tail(profile.objects, table)
        forget = call("forget_cursor", table_name=table)
        if newest is None:
            profile.database.run(forget)
            continue
        profile.database.run(forget, caching(table, newest))
        positions.append(table)
    return Rebuilt(runs, tuple(positions))
