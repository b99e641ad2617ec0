"""What else runs in an attempt that waits: threads it left behind, steps inside steps, branches of a join."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import ExecutionClosed, ExecutionSuperseded, JoinFailed, Permanent, StepFailed, Waiting
from engine.secrets import SecretGuard
from engine.shapes import RunStatus
from tests.stores import Effect, died, failing
from tests.waits import AWAY, EXACT, HOUR, ended_by, parked, throttled

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.execution.call import Call
    from engine.execution.execution import Execution
    from tests.clocks import SettableClock
    from tests.stores import Store


@pytest.mark.clause("run.journal.current-owner")
def test_a_handle_whose_attempt_waits_does_nothing_more(store: Store, clock: SettableClock) -> None:
    left_behind = parked(store)
    clock.advance(HOUR)
    resumed = store.elsewhere()

    with pytest.raises(ExecutionClosed):
        left_behind.step("late", died)
    with pytest.raises(ExecutionSuperseded):
        store.here.owners.check(left_behind._held.attempt)

    assert resumed.step("late", Effect()) == "done"


@pytest.mark.clause("run.journal.current-owner")
def test_a_handle_whose_attempt_goes_on_in_the_same_process_does_nothing_more_either(
    store: Store, clock: SettableClock
) -> None:
    left_behind = store.open()
    with pytest.raises(Waiting), left_behind:
        left_behind.step("ask", Effect(failing(throttled())), schedule=EXACT)
    clock.advance(HOUR)
    resumed = store.open()

    with pytest.raises(ExecutionClosed):
        left_behind.step("late", died)

    assert resumed.step("late", Effect()) == "done"


@pytest.mark.clause("run.journal.claim-takeover", "run.journal.current-owner")
def test_a_claim_left_behind_by_a_thread_bars_no_one_once_the_attempt_goes_on(
    store: Store, clock: SettableClock
) -> None:
    entered, leave = threading.Event(), threading.Event()
    execution = store.elsewhere()

    def held_up(_: Call) -> str:
        entered.set()
        leave.wait(10)
        return "late"

    raised: list[BaseException] = []
    thread = threading.Thread(target=ended_by(raised, lambda: execution.step("aside", held_up)))
    thread.start()
    entered.wait(10)
    with pytest.raises(Waiting), execution:
        execution.step("ask", Effect(failing(throttled())), schedule=EXACT)
    clock.advance(HOUR)
    resumed = store.elsewhere()

    assert resumed.step("aside", Effect("in time")) == "in time"

    leave.set()
    thread.join(10)
    assert [type(error) for error in raised] == [ExecutionSuperseded]
    assert resumed.step("aside", died) == "in time"


@pytest.mark.clause("run.journal.claim-takeover", "run.journal.step-output")
def test_what_a_thread_of_a_former_life_comes_to_is_not_taken_for_the_value_of_this_one(
    store: Store, clock: SettableClock
) -> None:
    entered, leave = threading.Event(), threading.Event()
    engine = store.stalled()
    execution = store.open(engine=engine)
    raised: list[BaseException] = []

    def held_up(_: Call) -> str:
        entered.set()
        leave.wait(10)
        return "late"

    def outlived(_: Call) -> str:
        leave.set()
        thread.join(10)
        return "in time"

    thread = threading.Thread(target=ended_by(raised, lambda: execution.step("aside", held_up)))
    thread.start()
    entered.wait(10)
    with pytest.raises(Waiting), execution:
        execution.step("ask", Effect(failing(throttled())), schedule=EXACT)
    clock.advance(HOUR)
    resumed = store.open(engine=engine)

    assert resumed.step("aside", outlived) == "in time"

    assert [type(error) for error in raised] == [ExecutionSuperseded]
    assert resumed.step("aside", died) == "in time"


@pytest.mark.clause("run.retry.one-layer", "run.retry.waiting-state")
def test_a_step_whose_inner_step_waits_waits_with_it_and_spends_no_attempt(store: Store, clock: SettableClock) -> None:
    inner = Effect(failing(throttled(), answer="found"))
    outer: list[int] = []

    def work(execution: Execution) -> Any:
        def effect(call: Call) -> Any:
            outer.append(call.attempt)
            return execution.step("inner", inner, schedule=EXACT)

        return execution.step("outer", effect, schedule=EXACT)

    execution = store.elsewhere()
    with pytest.raises(Waiting), execution:
        work(execution)
    clock.advance(HOUR)

    assert work(store.elsewhere()) == "found"
    assert (outer, inner.attempts) == ([1, 1], [1, 2])


@pytest.mark.clause("run.retry.resume-at", "run.journal.entry-key")
def test_a_program_that_asks_again_in_spite_of_a_wait_is_told_again_and_bars_itself_nowhere(store: Store) -> None:
    execution = store.elsewhere()
    inner = Effect(failing(throttled()))

    def outer(_: Call) -> Any:
        return execution.step("inner", inner, schedule=EXACT)

    for _ in range(3):
        with pytest.raises(Waiting, match="step inner waits until"):
            execution.step("outer", outer, schedule=EXACT)

    assert inner.calls == 1
    assert {entry.claim for entry in store.entries(execution.execution_id)} == {None}


@pytest.mark.clause("run.retry.waiting-state", "run.retry.no-double-spend")
def test_a_run_counts_what_it_masked_before_it_waited(store: Store, clock: SettableClock) -> None:
    engine = store.stalled()
    engine.settings = replace(engine.settings, guard=SecretGuard({"TOKEN": "hunter2-hunter2"}))
    for failure in (throttled(), None):
        execution = store.open(engine=engine)
        with suppress(Waiting), execution:
            execution.step("read", Effect("it is hunter2-hunter2"))
            execution.step("ask", Effect(failing(failure)), schedule=EXACT)
        clock.advance(HOUR)

    row = store.run(execution.run_id)
    assert (row.status, row.masked) == (RunStatus.SUCCESS, 1)


@pytest.mark.clause("run.retry.one-layer")
def test_a_throttle_and_an_outage_spend_one_budget(store: Store, clock: SettableClock) -> None:
    effect = Effect(failing(AWAY, throttled(), AWAY, AWAY, AWAY))
    with pytest.raises(Waiting), store.elsewhere() as execution:
        execution.step("ask", effect, schedule=EXACT)
    clock.advance(HOUR)

    with pytest.raises(StepFailed) as failure, store.elsewhere() as execution:
        execution.step("ask", effect, schedule=EXACT)

    assert failure.value.attempts == EXACT.attempts

    assert effect.attempts == [1, 2, 3, 4]


@pytest.mark.clause("run.retry.waiting-state", "run.journal.fan-out-join")
def test_a_join_waits_for_its_earliest_branch_once_all_have_ended(store: Store, clock: SettableClock) -> None:
    def asks(wait_ms: int) -> Callable[[Any], Any]:
        return lambda branch: branch.step("ask", Effect(failing(throttled(wait_ms))), schedule=EXACT)

    branches = {"slow": asks(2 * HOUR), "soon": asks(HOUR), "done": lambda branch: branch.step("ask", Effect())}
    execution = store.elsewhere()
    begun = clock.now()

    with pytest.raises(Waiting) as wait, execution:
        execution.join("all", branches, allow_partial=True)

    assert wait.value.due_at == begun + HOUR
    assert store.recorded(execution.execution_id) == ["all/done/ask"]
    assert store.run(execution.run_id).failed_branches == ()


@pytest.mark.clause("run.journal.fan-out-join")
def test_a_branch_that_fails_fails_the_join_though_another_waits(store: Store) -> None:
    branches = {
        "waits": lambda branch: branch.step("ask", Effect(failing(throttled()))),
        "fails": lambda branch: branch.step("ask", Effect(failing(Permanent("never")))),
    }
    execution = store.elsewhere()

    with pytest.raises(JoinFailed, match="fails"), execution:
        execution.join("all", branches)

    assert store.run(execution.run_id).status is RunStatus.FAILED
    # The vendor's instant stands for whoever comes next.
    again = store.elsewhere()
    assert again.execution_id == execution.execution_id
    with pytest.raises(Waiting):
        again.step("all/waits/ask", died)
