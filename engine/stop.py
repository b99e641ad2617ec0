"""Asking a run to end, from any process that shares its store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine import stops
from engine.archive import Archive
from engine.errors import CancelTargetNotInFlight
from engine.history import History
from engine.runs import Runs
from engine.shapes import RunStatus
from engine.sql import call
from engine.stops import StopScope

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.profile import Profile
    from engine.runs import RunRow


def stop(
    profile: Profile,
    run_id: str,
    *,
    scope: StopScope = StopScope.RUN,
    reason: str | None = None,
    authorize: Callable[[RunRow], None] = lambda _: None,
) -> list[str]:
    """Ask `run_id` to end, or all that is in flight of its pipeline, and return the ids of the runs marked.

    `authorize` is given the row as it is recorded and raises what refuses: the pipeline is read off the record, never
    off the request (run.cancel.authority-from-the-record). Raise `CancelTargetNotInFlight` where nothing of that id is
    in flight; then nothing is marked. A waiting run, which no process would hear it for, is canceled here.
    """
    row = Runs(profile.database).get(run_id)
    if row is None:
        raise CancelTargetNotInFlight(run_id=run_id, status="not recorded")
    authorize(row)
    marked = profile.database.run(call("stop_runs", run_id=run_id, scope=scope, reason=reason))[0]
    if not marked:
        raise CancelTargetNotInFlight(run_id=run_id, status=_status(profile, run_id))
    found = sorted(name for (name,) in marked)
    for name in found:
        _cancel_waiting(profile, name)
    return found


def _status(profile: Profile, run_id: str) -> str:
    row = Runs(profile.database).get(run_id)
    return str(row.status) if row else "not recorded"


def _cancel_waiting(profile: Profile, run_id: str) -> None:
    database = profile.database
    row = Runs(database).get(run_id)
    mark = stops.read(database, run_id)
    if row is None or mark is None or row.status is not RunStatus.WAITING:
        return
    ended = row.ended(RunStatus.CANCELED, at=database.now(), failure=mark.failure, stop=mark.shown)
    canceled, *_ = database.run(
        call("cancel_waiting", run_id=run_id, record=ended.record),
        call("release_canceled", run_id=run_id),
        call("cancel_left_fire", fire_id=row.fire_id),
    )
    if canceled:
        Archive(database, History(profile.objects)).carry(ended)
