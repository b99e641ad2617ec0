"""What the record says of a host's runs, whichever way they end, and of those that were turned away."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import ExecutionLive, Permanent, StepFailed
from engine.secrets import SecretGuard
from engine.shapes import RunStatus
from engine.sql import call
from engine.stop import stop
from tests.answering import Answering, listening
from tests.stores import LEASE, Effect, failing
from tests.waits import HOUR, parked

if TYPE_CHECKING:
    from tests.clocks import SettableClock
    from tests.stores import Store

SECRET = "s3cr3t-value"
KEY = "ghp_" + "a1B2" * 9


class _Fine(Answering):
    def reply(self) -> None:
        self.answer(200, b"")


@pytest.mark.clause("run.record.columns", "run.record.plan-identity")
def test_a_host_run_names_its_scope_its_plan_and_its_instants_and_keeps_them_without_its_owner(
    store: Store, clock: SettableClock
) -> None:
    begun = clock.now()
    with store.open("job", plan="plan-a") as execution:
        clock.advance(5)
        execution.step("one", Effect())
        at_work = store.run(execution.run_id)

    row = store.run(execution.run_id)
    assert (at_work.ended_at, at_work.started_at) == (None, begun)
    assert at_work.owner is not None
    assert (at_work.owner.pid, at_work.owner.lease_expires_at) == (os.getpid(), begun + LEASE)
    assert (store.owner(), row.owner) == (None, None)
    assert (row.host_scope, row.plan_ref, row.site_id) == ("job", "plan-a", "site-1")
    assert (row.execution_id, row.started_at, row.ended_at) == (execution.execution_id, begun, begun + 5)
    assert list(store.here.history.rows()) == [row]


@pytest.mark.clause("run.record.columns", "run.record.reserved-table")
def test_a_run_that_waits_is_recorded_with_its_instant(store: Store, clock: SettableClock) -> None:
    execution = parked(store)

    (appended,) = store.here.history.appended()

    assert (appended.phase, appended.run.run_id) == ("plan", execution.run_id)
    assert (appended.run.status, appended.run.next_attempt_at) == (RunStatus.WAITING, clock.now() + HOUR)
    assert store.run(execution.run_id).next_attempt_at == clock.now() + HOUR


@pytest.mark.clause("run.record.columns")
def test_a_run_that_was_asked_to_stop_is_recorded_with_the_request(store: Store, clock: SettableClock) -> None:
    execution = store.open()
    asked = {"requested_at": clock.now(), "scope": "run", "reason": "wrong month"}
    stop(store.profile(), execution.run_id, reason="wrong month")
    clock.advance(5)

    execution.close()

    (row,) = store.here.history.rows()
    assert row.stop == asked


@pytest.mark.clause("run.record.reserved-table", "run.record.columns")
def test_a_run_that_was_turned_away_is_recorded_with_what_it_met(store: Store) -> None:
    store.elsewhere()

    with pytest.raises(ExecutionLive):
        store.open(run_id="late")

    told = {row.run_id: row for row in store.here.history.rows()}
    assert (told["late"].status, told["late"].execution_id) == (RunStatus.FAILED, None)
    assert told["late"].error is not None
    assert (told["late"].error["tag"], told["late"].error["name"]) == ("Transient", "ExecutionLive")


@pytest.mark.parametrize(
    "echoed", [f"it is {SECRET}", f"it is {SECRET}".encode(), {SECRET: [SECRET]}, f"{KEY} {SECRET}"]
)
def test_what_an_effect_echoes_of_a_secret_is_recorded_masked_and_counted(store: Store, echoed: Any) -> None:
    execution = _guarded(store)
    spans = str(echoed).count(SECRET) + str(echoed).count(KEY)
    with execution:
        returned = execution.step("ask", Effect(echoed))
        (entry,) = store.entries(execution.execution_id)
        recorded = store.here.profile.journal.value(entry)

    assert SECRET.encode() not in recorded
    assert KEY.encode() not in recorded
    assert type(returned) is type(echoed)
    assert SECRET not in str(returned)
    assert store.run(execution.run_id).masked == spans


def test_a_secret_in_an_error_is_masked_before_the_error_is_recorded(store: Store) -> None:
    execution = _guarded(store)

    with pytest.raises(StepFailed), execution:
        execution.step("ask", Effect(failing(Permanent(f"no {SECRET} and no {KEY}"))))

    (row,) = store.here.history.rows()
    for record in (row.record, store.run(execution.run_id).record):
        assert "no ${TOKEN} and no [masked:github]" in record
        assert SECRET not in record


def test_a_secret_in_the_path_of_a_request_is_masked_in_the_ledger(store: Store) -> None:
    execution = _guarded(store)
    with listening(_Fine) as url:
        execution.step("ask", lambda call: call.http.get(f"{url}/hooks/{SECRET}/{KEY}").status_code)

    rows = store.here.profile.database.run(call("list_requests", execution_id=execution.execution_id))[0]

    assert f"{url}/hooks/${{TOKEN}}/[masked:github]" in str(rows)
    assert SECRET not in str(rows)
    assert KEY not in str(rows)


def _guarded(store: Store) -> Any:
    engine = store.engine()
    engine.settings = replace(engine.settings, guard=SecretGuard({"TOKEN": SECRET}))
    engine.room = replace(engine.room, guard=engine.settings.guard)
    return store.open(engine=engine)


@pytest.mark.clause("run.record.rebuild-restores-history")
def test_a_rebuild_lists_what_only_began_beside_what_ended_and_leaves_who_holds_it_alone(store: Store) -> None:
    begun = store.elsewhere(run_id="begun")
    with store.open("other", run_id="ended") as ended:
        ended.step("one", Effect())
    with pytest.raises(StepFailed), store.open("third", run_id="failed") as failed:
        failed.step("one", Effect(failing(Permanent("never"))))
    before = {run_id: store.run(run_id) for run_id in ("begun", "ended", "failed")}
    twin = store.twin("twin")

    assert store.here.history.rebuild(store.here.runs) == store.here.history.rebuild(twin.here.runs) == 3

    assert {row.run_id: row.status for row in twin.here.runs.since(0, ceiling=9)} == {
        "begun": RunStatus.RUNNING, "ended": RunStatus.SUCCESS, "failed": RunStatus.FAILED,
    }  # fmt: skip
    assert {run_id: store.run(run_id) for run_id in before} == before
    holding = store.run(begun.run_id).owner
    assert holding == before["begun"].owner
    assert holding is not None
