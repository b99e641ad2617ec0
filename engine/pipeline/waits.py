"""Waiting tables: what a fire comes to while one of them waits, and the owners whose instant has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.fires import Fires
from engine.shapes import FireState, RunStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.errors import ContextfulError
    from engine.host import Engine
    from engine.owners import Owner
    from engine.runs import RunRow


@dataclass(frozen=True, slots=True)
class Due:
    """An owner that waits for an instant, and the fire whose run it is; None where that fire has ended."""

    scope: str
    execution_id: str
    run_id: str
    wake_at: int
    fire_id: str | None

    @property
    def table(self) -> str | None:
        """The table, where it is one's owner."""
        kind, _, name = self.scope.partition(":")
        return name if kind == "table" else None


def waiting(engine: Engine) -> list[Due]:
    """Every owner that waits for an instant, the earliest first (run.retry.wake)."""
    found = [due for owner in engine.owners.all() if (due := _due(engine, owner))]
    return sorted(found, key=lambda due: (due.wake_at, due.scope))


def state_of(runs: Iterable[RunRow], refusals: Iterable[ContextfulError]) -> FireState:
    """What a fire of `runs` has come to, by the latest run of each table.

    One that waits leaves it running: nothing has failed, and nothing is done (run.retry.waiting-state).
    """
    runs = sorted(runs, key=lambda run: run.ended_at or 0)
    if any(run.status is RunStatus.WAITING for run in runs):
        return FireState.RUNNING
    latest = {run.table: run for run in runs}
    statuses = {run.status for run in latest.values()}
    if list(refusals) or not statuses <= {RunStatus.SUCCESS, RunStatus.CANCELED}:
        return FireState.FAILED
    return FireState.CANCELED if RunStatus.CANCELED in statuses else FireState.COMPLETED


def _due(engine: Engine, owner: Owner) -> Due | None:
    if owner.wake_at is None or owner.attempt is None:
        return None
    run = engine.runs.get(owner.attempt)
    fire_id = run.fire_id if run else None
    if fire_id and Fires(engine.profile.database).read(fire_id).state is not FireState.RUNNING:
        fire_id = None
    return Due(owner.scope, owner.execution_id, owner.attempt, owner.wake_at, fire_id)
