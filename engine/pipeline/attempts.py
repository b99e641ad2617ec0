"""What earlier attempts at the same request have come to: a request that is repeated lands nothing twice.

A request is the same under one fire, which an idempotency key names, or under one run id and its replays.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from engine.corpus.marker import history
from engine.errors import ExecutionLive
from engine.shapes import RunStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.corpus.marker import Marker
    from engine.host import Engine
    from engine.runs import RunRow


def attempts(engine: Engine, table: str, *, base: str | None, fire_id: str) -> list[RunRow]:
    """The runs of `table` so far: those of the fire, and those under the run id `base` and its replays."""
    found = [run for run in engine.runs.of_fire(fire_id) if run.table == table]
    for name in names(base):
        run = engine.runs.get(name)
        if run is None:
            break
        found.append(run)
    return found


def names(base: str | None) -> Iterator[str]:
    """The run id and then its replays, `<base>.replay-<k>`; nothing where no id was asked for."""
    if base is not None:
        yield base
        yield from (f"{base}.replay-{replay}" for replay in itertools.count(1))


def success_among(earlier: Sequence[RunRow]) -> RunRow | None:
    """The attempt that did it, if one has."""
    return next((run for run in earlier if run.status is RunStatus.SUCCESS), None)


def at_work(earlier: Sequence[RunRow], *, scope: str, now: int) -> ExecutionLive | None:
    """The attempt that is still at it on an unexpired lease, as what it refuses another of `scope` with.

    A replay opened beside it would land its rows again, should it end between this look and the open.
    """
    for run in earlier:
        if run.status is RunStatus.RUNNING and run.owner and run.owner.lease_expires_at > now:
            return ExecutionLive(scope=scope, attempt=run.run_id, lease_until=run.owner.lease_expires_at)
    return None


def unused(earlier: Sequence[RunRow], *, base: str | None) -> str | None:
    """The id of the next attempt, where `earlier` are those so far; None where no id was asked for."""
    used = {run.run_id for run in earlier}
    return next((name for name in names(base) if name not in used), None)


def orphaned_commit(engine: Engine, table: str, *, earlier: Sequence[RunRow]) -> Marker | None:
    """The final commit of an attempt that did not live to retire its owner: its rows stand, its run does not say so."""
    dead = {run.run_id for run in earlier if run.status is not RunStatus.SUCCESS}
    if not dead:
        return None
    markers = history(engine.profile.objects, table)
    return next((marker for marker in markers if marker.by.final and marker.by.run_id in dead), None)
