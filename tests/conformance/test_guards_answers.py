"""How a callback ends: with an answer, even a refusal, or without one; and what that leaves for the next try."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from engine.errors import (
    AuthExpired,
    EffectUnsettled,
    ExecutionTransferBlocked,
    Permanent,
    RateLimited,
    StepFailed,
    Transient,
)
from engine.schedule import Schedule
from engine.shapes import RunStatus
from tests.destinations import DOWN, HALF, HANG_UP, STALL, Vendor
from tests.guarded import HOUR, ONCE, TWICE, doubts, guards, opened
from tests.local_edge import free_ports
from tests.stores import Effect, Store, failing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.errors import ContextfulError
    from engine.execution.call import Call
    from engine.execution.execution import Execution
    from tests.clocks import SettableClock

PATIENT = Schedule(attempts=3, base_ms=1_000, jitter_ms=0, retry_on=frozenset(TWICE.retry_on))
REFUSED = (400, 402, 404, 409, 422, 429)
UNANSWERED = (408, 500, 502, 503, HANG_UP, STALL, DOWN, HALF)


@pytest.fixture
def destination(clock: SettableClock) -> Iterator[Vendor]:
    with Vendor(clock.now, window=HOUR).serving() as serving:
        yield serving


def sends(execution: Execution, destination: Vendor, *, schedule: Schedule = ONCE) -> ContextfulError | None:
    """What a step that calls the destination comes to: what it raised, None for a value."""
    try:
        execution.step("send", destination.send, schedule=schedule, destination="vendor")
    except (StepFailed, ExecutionTransferBlocked, EffectUnsettled) as raised:
        return raised
    return None


@pytest.mark.clause("run.callback-guard.release")
def test_answers_to_a_client_that_an_effect_kept_are_answers(store: Store, destination: Vendor) -> None:
    """Whatever it raises: what the ledger holds of its requests tells how it ended."""
    execution, kept = opened(store, window=None), list[httpx.Client]()
    execution.step("look", lambda call: kept.append(call.http))
    destination.script.append(402)

    def effect(_: Call) -> None:
        kept[0].post(destination.url, json={"amount": 1})
        raise Transient("the charge was turned down")

    with pytest.raises(StepFailed):
        execution.step("send", effect, schedule=ONCE, destination="vendor")

    assert (destination.received != [], destination.executed, guards(store)) == (True, [], [])


@pytest.mark.clause("run.callback-guard.release")
@pytest.mark.parametrize("window", [None, HOUR])
def test_a_callback_that_returns_leaves_no_guard_and_its_value(
    store: Store, destination: Vendor, window: int | None
) -> None:
    execution = opened(store, window=window)

    assert sends(execution, destination) is None

    (entry,) = store.entries(execution.execution_id)
    assert destination.received == destination.executed == [entry.key.idempotency_key]
    assert entry.recorded
    assert guards(store) == []


@pytest.mark.clause("run.callback-guard.release")
@pytest.mark.parametrize("window", [None, HOUR])
@pytest.mark.parametrize("status", REFUSED)
def test_a_refusal_is_an_answer_and_clears_the_mark(
    store: Store, destination: Vendor, status: int, window: int | None
) -> None:
    execution = opened(store, window=window)
    destination.script = [status]

    assert isinstance(sends(execution, destination), StepFailed)

    assert guards(store) == []
    assert doubts(store, execution) == [0]


@pytest.mark.clause("run.callback-guard.release")
@pytest.mark.parametrize("status", [429, 503])
def test_without_a_window_what_was_refused_is_sent_again(store: Store, destination: Vendor, status: int) -> None:
    execution = opened(store, window=None, refusals=(503,))
    destination.script = [status]

    assert sends(execution, destination, schedule=TWICE) is None

    assert len(destination.received) == 2
    assert len(destination.executed) == 1


@pytest.mark.clause("run.callback-guard.release", "run.callback-guard.window")
@pytest.mark.parametrize("act", UNANSWERED)
def test_while_the_window_covers_what_went_unanswered_is_sent_again_under_its_key(
    store: Store, destination: Vendor, act: int | str
) -> None:
    execution = opened(store, window=HOUR)
    destination.script = [act]

    assert sends(execution, destination, schedule=TWICE) is None

    assert len(destination.received) == 2
    assert len(set(destination.received)) == len(destination.executed) == 1
    assert guards(store) == []


@pytest.mark.clause("run.callback-guard.release", "run.callback-guard.window")
@pytest.mark.parametrize("window", [None, HOUR])
def test_a_connection_that_was_never_made_has_sent_nothing_and_leaves_no_guard(
    store: Store, destination: Vendor, window: int | None
) -> None:
    execution = opened(store, window=window)
    nobody = f"http://127.0.0.1:{free_ports(1)[0]}/charge"

    with pytest.raises(StepFailed):
        execution.step("send", lambda call: call.http.post(nobody).status_code, schedule=ONCE, destination="vendor")

    (entry,) = store.entries(execution.execution_id)
    assert guards(store) == []
    assert (entry.admitted_at, entry.doubts) == (None, 0)
    assert sends(execution, destination) is None
    assert len(destination.executed) == 1


@pytest.mark.clause("run.callback-guard.release", "run.callback-guard.manual")
@pytest.mark.parametrize("act", UNANSWERED)
def test_without_a_window_what_went_unanswered_keeps_its_guard_and_the_attempt_closes(
    store: Store, destination: Vendor, act: int | str
) -> None:
    execution = opened(store, window=None)
    destination.script = [act]

    with pytest.raises(ExecutionTransferBlocked) as raised, execution:
        execution.step("send", destination.send, schedule=PATIENT, destination="vendor")

    (guard,) = guards(store)
    assert (raised.value.token, raised.value.exit_code) == (guard.token, 75)
    assert len(destination.received) == 1
    assert store.run(execution.run_id).status is RunStatus.FAILED
    owner = store.owner()
    assert owner is not None
    assert owner.attempt is None
    assert not execution._room.callbacks.at_work(guards(store)[0].token), "nobody waits for its return"


@pytest.mark.clause("run.callback-guard.release")
def test_a_status_that_the_destination_declares_a_refusal_is_an_answer(store: Store, destination: Vendor) -> None:
    execution = opened(store, window=None, refusals=(503,))
    destination.script = [503]

    assert isinstance(sends(execution, destination), StepFailed)

    assert guards(store) == []
    assert doubts(store, execution) == [0]


@pytest.mark.clause("run.callback-guard.release")
def test_after_an_answer_that_says_it_acted_a_failing_effect_is_no_refusal(store: Store, destination: Vendor) -> None:
    execution = opened(store, window=None)

    def effect(call: Call) -> None:
        destination.send(call)
        raise Permanent("what came back was not understood")

    with pytest.raises(ExecutionTransferBlocked):
        execution.step("send", effect, destination="vendor")

    assert len(guards(store)) == 1


@pytest.mark.clause("run.callback-guard.release")
@pytest.mark.parametrize("kind", [Permanent, RateLimited, AuthExpired])
def test_a_step_recorded_inside_a_callback_changes_nothing_about_how_it_ended(
    store: Store, destination: Vendor, kind: type[ContextfulError]
) -> None:
    execution = opened(store, window=None)
    destination.script = [500]

    def effect(call: Call) -> None:
        answer = call.http.post(destination.url, timeout=5)
        execution.step("note", Effect(answer.status_code))
        raise kind("refused")

    with pytest.raises(ExecutionTransferBlocked):
        execution.step("send", effect, destination="vendor")

    assert len(guards(store)) == 1


@pytest.mark.clause("run.journal.idempotency-key")
def test_what_a_callback_sends_after_a_step_inside_it_goes_out_under_its_own_key(
    store: Store, destination: Vendor
) -> None:
    execution = opened(store, window=HOUR)

    def effect(call: Call) -> Any:
        execution.step("note", Effect())
        return destination.send(call)

    execution.step("send", effect, destination="vendor")

    sent = next(entry for entry in store.entries(execution.execution_id) if entry.key.step == "send")
    assert destination.received == [sent.key.idempotency_key]


@pytest.mark.parametrize("raised", [Permanent("no"), RateLimited("slow"), AuthExpired("key")])
def test_what_it_says_of_its_own_means_answers_no_request_of_the_client(
    store: Store, destination: Vendor, raised: Exception
) -> None:
    execution = opened(store, window=None)
    destination.script = [503]

    def effect(call: Call) -> None:
        call.check()
        with suppress(httpx.HTTPStatusError):
            destination.send(call)
        raise raised

    with pytest.raises(ExecutionTransferBlocked):
        execution.step("send", effect, schedule=ONCE, destination="vendor")

    assert doubts(store, execution) == [1]


@pytest.mark.parametrize("raised", [Transient("away"), ValueError("odd"), OSError("gone"), httpx.ReadTimeout("late")])
def test_whatever_else_it_raises_is_no_answer(store: Store, raised: Exception) -> None:
    execution = opened(store, window=None)

    with pytest.raises(ExecutionTransferBlocked):
        execution.step("send", Effect(failing(raised)), schedule=PATIENT, destination="vendor")

    assert len(guards(store)) == 1
    assert doubts(store, execution) == [1]
