"""What earlier attempts at the same request have come to: a request that is repeated lands nothing twice.

A request is the same under one fire, which an idempotency key names, or under one run id and its replays.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.corpus.marker import history
from engine.errors import ExecutionLive
from engine.shapes import RunStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.corpus.marker import Marker
    from engine.execution.held import Held
    from engine.host import Engine
    from engine.runs import RunRow


def attempts(engine: Engine, table: str, *, base: str | None, fire_id: str, waited: str | None = None) -> list[RunRow]:
    """The runs of `table` so far: those of the fire, those under the run id `base` and its replays, the one `waited`.

    What waited is of another fire once another has resumed it.
    """
    found = [run for run in engine.runs.of_fire(fire_id) if run.table == table]
    for name in names(base):
        run = engine.runs.get(name)
        if run is None:
            break
        found.append(run)
    ours = engine.runs.get(waited) if waited else None
    return [*found, ours] if ours else found


def names(base: str | None) -> Iterator[str]:
    """The run id and then its replays, `<base>.replay-<k>`; nothing where no id was asked for."""
    if base is not None:
        yield base
        yield from (f"{base}.replay-{replay}" for replay in itertools.count(1))


def success_among(earlier: Sequence[RunRow]) -> RunRow | None:
    """The attempt that did it, if one has."""
    return next((run for run in earlier if run.status is RunStatus.SUCCESS), None)


def answer_among(earlier: Sequence[RunRow], *, waited: str | None) -> RunRow | None:
    """The attempt that did it, or else the one `waited`, where that has come to its end elsewhere, whichever it is."""
    ended = (run for run in earlier if run.run_id == waited and run.status.terminal)
    return success_among(earlier) or next(ended, None)


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


def closed_on(engine: Engine, held: Held, table: str, *, earlier: Sequence[RunRow]) -> RunRow | None:
    """Close `held` on what one of `earlier` has landed since it was looked at, and return the row that tells of it.

    None where none has. It is asked once the owner is held: from then on nobody else lands anything.
    """
    seen = [now for run in earlier if (now := engine.runs.get(run.run_id))]
    done = success_among(seen)
    landed = None if done else orphaned_commit(engine, table, earlier=seen)
    if not (done or landed):
        return None
    row = held.ended(RunStatus.SUCCESS)
    row = replace(row, rows=landed.rows, bytes=landed.size) if landed else row
    # What is pending by now is another request's, and stays so, unless it is what has landed.
    ours = landed is not None and landed.by.execution_id == held.attempt.execution_id
    held.release(row) if held.resumed and not ours else held.retire(row)
    return done or row
