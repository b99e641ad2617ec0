"""A fire: one execution of one pipeline over its tables, in manifest order. One table failing stops no other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import CANCELED, NOT_NOW, Canceled, Config, ContextfulError, ExecutionLive, RunIdUsed
from engine.fires import Fires, keyed_fire_id
from engine.pipeline.attempts import answer_among, at_work, attempts, unused
from engine.pipeline.reconcile import scope_of
from engine.pipeline.stage import discard_ended
from engine.pipeline.table_run import TableRun, Watcher
from engine.pipeline.waits import state_of
from engine.shapes import FireState, RunStatus
from engine.stops import StopScope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.host import Engine
    from engine.pipeline.declaration import Pipeline, Table
    from engine.pipeline.source import Secrets
    from engine.runs import RunRow

RUN_ID_LIMIT = 128


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a fire ended: its runs, and what refused a table before it had one."""

    fire_id: str
    state: FireState
    runs: tuple[RunRow, ...]
    refusals: tuple[ContextfulError, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 when every table succeeded; 75 when it is only not now; 130 when stopped; else 1, or a refusal's own."""
        if self.state is FireState.COMPLETED:
            return 0
        if self.state is FireState.CANCELED:
            return CANCELED
        waits = any(run.status is RunStatus.WAITING for run in self.runs)
        if self.state in {FireState.REQUESTED, FireState.RUNNING} and not waits:
            return NOT_NOW
        failed = any(run.status not in {RunStatus.SUCCESS, RunStatus.WAITING} for run in self.runs)
        if waits and not (failed or self.refusals):
            return NOT_NOW
        codes = {refusal.exit_code for refusal in self.refusals}
        if codes == {NOT_NOW} and not failed:
            return NOT_NOW
        return max(codes - {NOT_NOW}, default=1)


@dataclass(frozen=True, slots=True)
class Request:
    """What a fire was asked for.

    `await_live` waits a live owner out and tells whether to try once more; `await_due` sits out the instant a scope
    waits for and tells whether it has. A `fire_id` names the fire whose waiting tables are resumed.
    """

    pipeline: Pipeline
    tables: tuple[Table, ...]
    run_id: str | None = None
    idempotency_key: str | None = None
    await_live: Callable[[ExecutionLive], bool] = lambda _: False
    await_due: Callable[[str, int], bool] = lambda *_: False
    fire_id: str | None = None


def fire(engine: Engine, request: Request, *, secrets: Secrets, watcher: Watcher) -> Outcome:
    """Fire the request, or return what an earlier fire of the same idempotency key came to.

    One of that key that is at work elsewhere is sat out, as long as the request has patience. Raise `Config`, before
    anything is written or asked, when a table's run id would be too long; `Canceled` when stopped while it waits.
    """
    bases = {table.name: _base_run_id(request, table) for table in request.tables}
    fires = Fires(engine.profile.database)
    fire_id = _fire_id(engine, request)
    engine.leases.register()
    fires.fail_dead(but=fire_id)
    discard_ended(engine.profile.scratch, ended=lambda run_id: _ended(engine, run_id))
    fires.request(fire_id, pipeline_id=request.pipeline.id)
    while not fires.begin(fire_id, holder=engine.leases.holder):
        if not _sat_out(engine, fires, request, fire_id):
            standing = fires.read(fire_id)
            return Outcome(fire_id, standing.state, tuple(engine.runs.of_fire(fire_id)))
    try:
        outcome = _run_tables(engine, request, fire_id, bases, secrets=secrets, watcher=watcher)
    except KeyboardInterrupt:
        fires.end(fire_id, FireState.CANCELED, holder=engine.leases.holder)
        raise
    except BaseException:
        fires.end(fire_id, FireState.FAILED, holder=engine.leases.holder)
        raise
    if outcome.state is FireState.RUNNING:
        fires.leave(fire_id, holder=engine.leases.holder)
    else:
        fires.end(fire_id, outcome.state, holder=engine.leases.holder)
    return outcome


def _run_tables(
    engine: Engine,
    request: Request,
    fire_id: str,
    bases: Mapping[str, str | None],
    *,
    secrets: Secrets,
    watcher: Watcher,
) -> Outcome:
    runs: list[RunRow] = []
    refusals: list[ContextfulError] = []
    for table in request.tables:
        if _stopped(engine, runs):
            return Outcome(fire_id, FireState.CANCELED, tuple(runs), tuple(refusals) or _reason(engine, runs))
        try:
            row = _run_table(
                engine, request, table, fire_id=fire_id, base=bases[table.name], secrets=secrets, watcher=watcher
            )
            runs.append(row)
        except ContextfulError as refusal:
            refusals.append(refusal)
    if any(isinstance(refusal, Canceled) for refusal in refusals):
        return Outcome(fire_id, FireState.CANCELED, tuple(runs), tuple(refusals))
    # A fire that is resumed has runs of other tables too: each counts as it stands now. Of a table that has come to a
    # run, what was turned away before that counts no more.
    come = {run.table for run in runs}
    others = (run for run in engine.runs.of_fire(fire_id) if run.table not in come)
    state = state_of((*others, *runs), refusals)
    return Outcome(fire_id, state, tuple(runs), tuple(refusals))


def _run_table(
    engine: Engine,
    request: Request,
    table: Table,
    *,
    fire_id: str,
    base: str | None,
    secrets: Secrets,
    watcher: Watcher,
) -> RunRow:
    """Run the table, or return the run that has done it already.

    The id is drawn from the look that found nothing done: whoever was at the same request in between has used it, or
    was at one of the attempts that were seen, and what that came to is looked at anew. So two that ask for one run id
    at once land its rows once. A run that waits here may be resumed elsewhere, and is told as it ended.
    """
    scope, run, waited = scope_of(table.name), None, None
    while True:
        earlier = attempts(engine, table.name, base=base, fire_id=fire_id, waited=waited)
        if answer := answer_among(earlier, waited=waited):
            return answer
        run = run or TableRun(engine, table, secrets=secrets, watcher=watcher)
        try:
            if _awaited(engine, request, scope, earlier):
                continue
            row = run.run(unused(earlier, base=base) or engine.chance.run_id(), fire_id=fire_id, earlier=earlier)
        except RunIdUsed:
            if base is None:
                raise
        except ExecutionLive as live:
            if not _patient(engine, request, live):
                raise
        else:
            if not (row.next_attempt_at and request.await_due(scope, row.next_attempt_at)):
                return row
            waited = row.run_id


def _stopped(engine: Engine, runs: Sequence[RunRow]) -> bool:
    """Whether what the fire has left is to be left: its engine or its pipeline is stopped (run.cancel.two-grains)."""
    if engine.stopping.reason is not None:
        return True
    return any(run.stop is not None and run.stop["scope"] == StopScope.PIPELINE for run in runs)


def _reason(engine: Engine, runs: Sequence[RunRow]) -> tuple[ContextfulError, ...]:
    """What stopped the fire, where no run of it says so."""
    told = any(run.status is RunStatus.CANCELED for run in runs)
    return () if told or engine.stopping.reason is None else (engine.stopping.reason,)


def _sat_out(engine: Engine, fires: Fires, request: Request, fire_id: str) -> bool:
    """Sit out a fire at work elsewhere; tell whether it is no longer, and may have been left to be taken up."""
    while (standing := fires.read(fire_id)).state is FireState.RUNNING:
        if standing.lease_until <= engine.profile.database.now():
            return True
        scope = f"pipeline:{request.pipeline.id}"
        if not _patient(engine, request, ExecutionLive(scope=scope, attempt=fire_id, lease_until=standing.lease_until)):
            return False
    return False


def _awaited(engine: Engine, request: Request, scope: str, earlier: Sequence[RunRow]) -> bool:
    """Wait for what is in the way, as far as patience reaches; tell whether something was and is to be looked at anew.

    Raise `ExecutionLive` where that is an attempt at the same request.
    """
    if live := at_work(earlier, scope=scope, now=engine.profile.database.now()):
        raise live
    return _await_live(engine, request, scope) or _await_due(engine, request, scope)


def _await_live(engine: Engine, request: Request, scope: str) -> bool:
    """Sit a live owner out before anything is opened, as long as the request has patience; tell whether it is gone."""
    waited = False
    while (owner := engine.owners.read(scope)) and owner.attempt and owner.lease_until > engine.profile.database.now():
        live = ExecutionLive(scope=scope, attempt=owner.attempt, lease_until=owner.lease_until)
        if not _patient(engine, request, live):
            return False
        waited = True
    return waited


def _patient(engine: Engine, request: Request, live: ExecutionLive) -> bool:
    """Wait a little for what is `live`; tell whether to look again."""
    engine.stopping.check()
    return request.await_live(live)


def _await_due(engine: Engine, request: Request, scope: str) -> bool:
    """Sit out the instant a scope waits for, where the request has the patience; else the run waits once more."""
    owner = engine.owners.read(scope)
    if owner and owner.wake_at and owner.wake_at > engine.profile.database.now():
        return request.await_due(scope, owner.wake_at)
    return False


def _base_run_id(request: Request, table: Table) -> str | None:
    """R for one table, R.<table> for several (surface: `--run-id`)."""
    if request.run_id is None:
        return None
    base = request.run_id if len(request.tables) == 1 else f"{request.run_id}.{table.name}"
    if len(base) > RUN_ID_LIMIT:
        raise Config(
            f"the run id {base} has {len(base)} characters", remedy=f"choose one that keeps it to {RUN_ID_LIMIT}"
        )
    return base


def _ended(engine: Engine, run_id: str) -> bool:
    run = engine.runs.get(run_id)
    return run is not None and run.status.terminal


def _fire_id(engine: Engine, request: Request) -> str:
    if request.idempotency_key is None:
        return request.fire_id or engine.chance.fire_id()
    return keyed_fire_id(project=engine.settings.project, pipeline=request.pipeline.id, key=request.idempotency_key)
