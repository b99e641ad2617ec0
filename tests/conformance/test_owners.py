"""One owner a scope: who may resume it, under what pins, and when."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import ExecutionLive, ExecutionPinMismatch, PinUnusable
from engine.pins import Pins
from engine.shapes import Connector, FailureTag, RunStatus
from tests.stores import LEASE, Effect, Store, died

if TYPE_CHECKING:
    from engine.execution.execution import Execution
    from engine.execution.finished import FinishedExecution
    from engine.execution.held import Held
    from tests.clocks import SettableClock

BUILD = Connector("github", "1.0", "sha256:aa")
REBUILT = Connector("github", "1.0", "sha256:bb")


def table(store: Store, name: str, connector: Connector, *, content_hash: str = "sha256:decl") -> Held:
    """Hold a table's owner under `connector`."""
    engine = store.here
    run = engine.new_run(engine.chance.run_id(), plan_ref=content_hash, connector=connector, table=name)
    return engine.hold(f"table:{name}", Pins(content_hash, connector=connector, input_hash="sha256:in"), run=run)


@pytest.mark.clause("run.own.execution-owner", "run.own.live-owner")
def test_of_twenty_opens_at_once_one_holds_the_scope_and_all_others_are_told_by_whom(store: Store) -> None:
    engines = [store.engine() for _ in range(4)]
    begun = threading.Barrier(20)

    def attempt(number: int) -> Execution | FinishedExecution | ExecutionLive:
        begun.wait(10)
        try:
            return engines[number % 4].open("job", plan="plan-a")
        except ExecutionLive as live:
            return live

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(attempt, range(20)))

    refusals = [answer for answer in answers if isinstance(answer, ExecutionLive)]
    (holder,) = [answer for answer in answers if not isinstance(answer, ExecutionLive)]
    owner = store.owner()
    assert owner is not None
    assert len(refusals) == 19
    assert {refusal.attempt for refusal in refusals} == {owner.attempt}
    assert owner.execution_id == holder.execution_id


@pytest.mark.clause("run.own.execution-owner")
def test_a_table_owner_holds_connector_world_declaration_and_input(store: Store) -> None:
    held = table(store, "issues", BUILD)

    owner = store.here.owners.read("table:issues")

    assert owner is not None
    for pinned in ('"id":"github"', '"hash":"sha256:aa"', '"version":"1.0"', '"world":"native"', "sha256:decl"):
        assert pinned in owner.pins
    assert "sha256:in" not in owner.pins
    assert store.run(held.attempt.run_id).execution_id == owner.execution_id


@pytest.mark.clause("run.own.host-scope")
def test_a_host_owner_pins_the_plan_and_the_identities_its_host_names(store: Store) -> None:
    store.open("index-42", plan="sha256:plan", pins={"model": "m1"}).step("one", Effect())

    owner = store.owner("index-42")

    assert owner is not None
    assert (owner.scope, owner.plan_ref) == ("host:index-42", "sha256:plan")
    assert '"model":"m1"' in owner.pins


@pytest.mark.clause("run.own.host-scope")
@pytest.mark.parametrize(
    ("pins", "said"),
    [
        ({"model": "m1", "m": object()}, "the pin 'm' is of the type object"),
        ({"m": {"sizes": {1, 2}}}, "the pin 'm' is of the type dict"),
        ({"m": float("nan")}, "the pin 'm' is nan"),
        ({"m": "\ud800"}, r"the pin 'm' is '\ud800'"),
        ({7: "m1"}, "the pin 7 is named by no text"),
    ],
)
def test_an_identity_that_nothing_can_be_compared_with_is_refused_by_its_name(
    store: Store, pins: dict[Any, Any], said: str
) -> None:
    with pytest.raises(PinUnusable) as refusal:
        store.open(pins=pins)

    assert str(refusal.value).startswith(f"{said}, ")
    assert "a text or another JSON value" in str(refusal.value)
    assert store.owner() is None


@pytest.mark.clause("run.own.host-scope", "run.own.pinned-plan-changed")
def test_an_identity_that_moved_refuses_a_pending_host_owner(store: Store, clock: SettableClock) -> None:
    store.elsewhere(pins={"model": "m1"}).step("one", Effect())
    clock.advance(LEASE)

    with pytest.raises(ExecutionPinMismatch) as refusal:
        store.open(pins={"model": "m2"})

    assert '"m1"' in refusal.value.pinned
    assert '"m2"' in refusal.value.asked


@pytest.mark.clause("run.own.execution-id-keys-the-journal")
def test_attempts_of_one_owner_read_the_same_recorded_values(store: Store, clock: SettableClock) -> None:
    first = store.elsewhere()
    first.step("one", Effect("recorded"))
    clock.advance(LEASE)

    second = store.open()

    assert second.run_id != first.run_id
    assert second.execution_id == first.execution_id
    assert second.step("one", died) == "recorded"


@pytest.mark.clause("run.own.retirement")
def test_after_success_the_next_open_is_a_fresh_execution(store: Store) -> None:
    with store.open() as first:
        first.step("one", Effect("first"))

    with store.open() as second:
        value = second.step("one", Effect("second"))

    assert value == "second"
    assert second.execution_id != first.execution_id


@pytest.mark.clause("run.own.pinned-plan-changed")
def test_a_pending_owner_under_plan_a_refuses_plan_b_and_records_the_failed_run(
    store: Store, clock: SettableClock
) -> None:
    first = store.elsewhere()
    first.step("one", Effect())
    clock.advance(LEASE)

    with pytest.raises(ExecutionPinMismatch) as refusal:
        store.open(plan="plan-b", run_id="job-b")

    assert refusal.value.scope == "host:job"
    assert refusal.value.tag is FailureTag.PERMANENT
    assert ("plan-a" in refusal.value.pinned, "plan-b" in refusal.value.asked) == (True, True)
    row = store.run("job-b")
    assert (row.status, row.ended_at is not None) == (RunStatus.FAILED, True)
    assert row.error is not None
    assert row.error["name"] == "ExecutionPinMismatch"
    assert store.recorded(first.execution_id) == ["one"]


@pytest.mark.clause("run.own.pin-mismatch-recovery")
def test_the_refusal_names_both_recoveries_with_the_pending_execution(store: Store, clock: SettableClock) -> None:
    first = store.elsewhere()
    first.step("one", Effect())
    clock.advance(LEASE)

    with pytest.raises(ExecutionPinMismatch) as refusal:
        store.open(plan="plan-b")

    assert "restore the recorded build and resume it to completion" in str(refusal.value)
    assert f"contextful run rewind {first.execution_id} --reason" in str(refusal.value)


@pytest.mark.clause("run.own.pin-mismatch-recovery")
def test_resuming_under_the_recorded_plan_to_completion_clears_the_owner(store: Store, clock: SettableClock) -> None:
    store.elsewhere().step("one", Effect())
    clock.advance(LEASE)
    with pytest.raises(ExecutionPinMismatch):
        store.open(plan="plan-b")

    with store.open(plan="plan-a") as restored:
        restored.step("one", died)

    assert store.open(plan="plan-b").step("one", Effect("under b")) == "under b"


@pytest.mark.clause("run.own.scope-independence")
def test_a_table_that_finishes_releases_nothing_of_anothers(store: Store) -> None:
    done, unfinished = table(store, "issues", BUILD), table(store, "users", BUILD)
    before = store.here.owners.read("table:users")

    done.retire(done.ended(RunStatus.SUCCESS))

    assert store.here.owners.read("table:issues") is None
    assert store.here.owners.read("table:users") == before
    store.here.owners.check(unfinished.attempt)


@pytest.mark.clause("run.own.admission-pin", "run.own.pinned-plan-changed")
def test_a_rebuilt_connector_reaches_no_run_that_was_admitted_before_it(store: Store, clock: SettableClock) -> None:
    admitted = table(store, "issues", BUILD)
    admitted.release(admitted.ended(RunStatus.FAILED))

    with pytest.raises(ExecutionPinMismatch):
        table(store, "issues", REBUILT)

    resumed = table(store, "issues", BUILD)
    assert resumed.attempt.execution_id == admitted.attempt.execution_id
    assert store.run(admitted.attempt.run_id).connector == BUILD


@pytest.mark.clause("run.journal.plan-pin")
def test_a_run_keeps_the_plan_it_started_against_whatever_is_asked_meanwhile(store: Store) -> None:
    run = store.open(plan="sha256:a")
    run.step("one", lambda _: 1)
    for plan in ("sha256:b", "sha256:c"):
        with pytest.raises(ExecutionLive):
            store.elsewhere(plan=plan)

    owner = store.owner()
    assert owner is not None
    assert (owner.plan_ref, store.run(run.run_id).plan_ref) == ("sha256:a", "sha256:a")
    run.close()
    assert store.run(run.run_id).plan_ref == "sha256:a"
