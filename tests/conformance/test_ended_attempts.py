"""How an attempt may end, and what its scope is to whoever opens it next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import ExecutionFinished, ExecutionLive, StepFailed
from engine.shapes import FailureTag, RunStatus
from tests.stores import LEASE, Died, Effect, Store, died

if TYPE_CHECKING:
    from tests.clocks import SettableClock


@pytest.mark.clause("run.own.live-owner")
def test_job_b_fails_transient_naming_job_a_which_alone_holds_the_owner(store: Store) -> None:
    job_a = store.elsewhere("index-42", run_id="job-a")

    with pytest.raises(ExecutionLive) as refusal:
        store.open("index-42", plan="plan-a", run_id="job-b")

    owner = store.owner("index-42")
    assert owner is not None
    assert (refusal.value.tag, refusal.value.attempt) == (FailureTag.TRANSIENT, "job-a")
    assert (owner.attempt, owner.execution_id) == ("job-a", job_a.execution_id)
    assert (store.run("job-b").status, store.run("job-b").execution_id) == (RunStatus.FAILED, None)
    assert store.run("job-a").status is RunStatus.RUNNING


@pytest.mark.clause("run.own.unclosed-execution")
def test_a_dropped_handle_records_no_status_and_is_resumed_once_its_lease_lapses(
    store: Store, clock: SettableClock
) -> None:
    dropped = store.elsewhere(run_id="dropped")
    dropped.step("one", Effect())
    del dropped
    assert store.run("dropped").status is RunStatus.RUNNING
    with pytest.raises(ExecutionLive):
        store.open()

    clock.advance(LEASE)
    resumed = store.open()

    assert resumed.resumed
    assert resumed.step("one", died) == "done"


@pytest.mark.clause("run.own.unclosed-execution")
def test_a_closed_engine_leaves_its_open_handles_pending(store: Store, clock: SettableClock) -> None:
    with store.engine() as engine:
        handle = store.open("job", engine=engine)
        handle.step("one", Effect())
    clock.advance(LEASE)

    assert store.open().execution_id == handle.execution_id


@pytest.mark.clause("run.own.pin-release")
def test_a_failure_that_recorded_nothing_releases_the_owner(store: Store) -> None:
    with pytest.raises(StepFailed), store.open() as execution:
        execution.step("one", Effect(lambda: 1 / 0))

    assert store.owner() is None
    assert store.run(execution.run_id).status is RunStatus.FAILED
    assert store.entries(execution.execution_id) == []


@pytest.mark.clause("run.own.pin-release")
def test_a_failure_after_a_recorded_step_holds_the_owner_for_the_next_open(store: Store) -> None:
    execution = store.open()
    execution.step("one", Effect())

    with pytest.raises(StepFailed), execution:
        execution.step("two", Effect(lambda: 1 / 0))

    owner = store.owner()
    assert owner is not None
    assert (owner.execution_id, owner.attempt) == (execution.execution_id, None)
    assert store.open().step("one", died) == "done"


@pytest.mark.clause("run.own.pin-release")
def test_an_interrupted_block_closes_canceled_and_holds_what_it_recorded(store: Store) -> None:
    execution = store.open()
    execution.step("one", Effect())

    with pytest.raises(KeyboardInterrupt), execution:
        raise KeyboardInterrupt

    assert store.run(execution.run_id).status is RunStatus.CANCELED
    assert store.recorded(execution.execution_id) == ["one"]


def test_a_scope_opened_once_answers_its_recorded_values_after_success(store: Store) -> None:
    with store.open(once=True) as first:
        first.step("one", Effect("recorded"))

    with store.here.open("job", plan="plan-a", once=True) as finished:
        assert finished.step("one", died) == "recorded"
        with pytest.raises(ExecutionFinished):
            finished.step("two", Effect())

    assert finished.execution_id == first.execution_id


def test_a_finished_scope_opened_without_once_starts_over(store: Store) -> None:
    with store.open(once=True) as first:
        first.step("one", Effect("recorded"))

    with store.open() as second:
        assert second.step("one", Effect("afresh")) == "afresh"

    assert store.entries(first.execution_id) == []


def test_a_process_that_dies_inside_an_effect_leaves_a_scope_that_is_resumed(
    store: Store, clock: SettableClock
) -> None:
    crashed = store.elsewhere()
    with pytest.raises(Died):
        crashed.step("one", died)
    clock.advance(LEASE)

    assert store.open().step("one", Effect("second try")) == "second try"
