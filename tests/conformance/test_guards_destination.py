"""A step that calls another destination than before: what is in doubt or settled at the first binds it there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import (
    EffectElsewhere,
    EffectOverdue,
    EffectSettled,
    EffectUnsettled,
    ExecutionTransferBlocked,
    Permanent,
    RateLimited,
    StepFailed,
    Transient,
)
from engine.pipeline.declaration import Destination
from engine.rewind import rewind
from tests.guarded import HOUR, ONCE, Dead, desk, guards, receipt, reconcile, recorded_bytes, replayable, vendor
from tests.stores import LEASE, Died, Effect, Store, died, failing

if TYPE_CHECKING:
    from engine.execution.call import Call
    from engine.execution.execution import Execution
    from engine.guards.guard import Guard
    from engine.host import Engine

AWAY = Transient("no answer came")
REFUSED = RateLimited("slow down")


def engine_for_both(store: Store, *, window: int | None = HOUR, stalls: bool = False) -> Engine:
    """An engine that knows the destinations `vendor` and `other`; one that stalls renews nothing."""
    make = store.stalled if stalls else store.engine
    other = Destination("other", "http://other.test", dedup_window_ms=window)
    return make(destinations={"vendor": vendor(window=window), "other": other})


def opened(store: Store, *, window: int | None = HOUR) -> Execution:
    assert store.here, "what looks on is there before time passes: it would take a lapsed lease for an orphan's"
    return store.open(engine=engine_for_both(store, window=window))


def fails(execution: Execution, failure: Exception, *, at: str = "vendor") -> None:
    with pytest.raises(StepFailed):
        execution.step("send", Effect(failing(failure)), schedule=ONCE, destination=at)


def overdue(call: Call) -> None:
    """Send nothing: the request would take longer than the window."""
    call.check(timeout_ms=HOUR)


def left_sending(store: Store, *, window: int | None = HOUR) -> Dead:
    """An engine died inside its callback to `vendor`, a lease's life ago and with the exit recorded."""
    engine = engine_for_both(store, window=window, stalls=True)
    execution = store.open(engine=engine)
    with pytest.raises(Died):
        execution.step("send", died, destination="vendor")
    engine.leases.exit()
    engine.keeper.stop()
    store.clock.advance(LEASE)
    (guard,) = guards(store)
    return Dead(engine, execution, guard)


def sends_nothing_elsewhere(store: Store, execution: Execution) -> EffectUnsettled:
    """Ask for the step at `other`; return the refusal, which has changed nothing."""
    before, effect = store.entries(execution.execution_id), Effect()

    with pytest.raises(EffectElsewhere) as refusal:
        execution.step("send", effect, destination="other")

    assert effect.calls == 0
    assert store.entries(execution.execution_id) == before
    assert guards(store) == []
    return refusal.value


@pytest.mark.clause("run.callback-guard.window")
@pytest.mark.parametrize("passed", [0, HOUR - 1, HOUR, 2 * HOUR])
@pytest.mark.parametrize("window", [HOUR, 4 * HOUR])
def test_what_went_unanswered_is_sent_to_no_other_destination_whatever_windows_cover(
    store: Store, window: int, passed: int
) -> None:
    execution = opened(store, window=window)
    fails(execution, AWAY)
    store.clock.advance(passed)

    refusal = sends_nothing_elsewhere(store, execution)

    told = str(refusal)
    assert isinstance(refusal, EffectUnsettled)
    assert (refusal.step, refusal.destination, refusal.facts["named"]) == ("send", "vendor", "other")
    assert refusal.exit_code == EffectUnsettled.exit_code
    assert all(each in told for each in ("step send", "vendor", "other", "name vendor again", "within its window"))
    assert f"contextful run rewind {execution.execution_id} --reason TEXT --force" in told


@pytest.mark.clause("run.callback-guard.window")
def test_a_resumed_run_whose_program_names_another_destination_sends_nothing_there(store: Store) -> None:
    with pytest.raises(StepFailed), opened(store) as first:
        first.step("send", Effect(failing(AWAY)), schedule=ONCE, destination="vendor")

    again = opened(store)

    assert again.execution_id == first.execution_id
    sends_nothing_elsewhere(store, again)


@pytest.mark.clause("run.callback-guard.window")
def test_named_again_within_its_window_the_first_destination_is_called_again(store: Store) -> None:
    execution = opened(store)
    fails(execution, AWAY)
    sends_nothing_elsewhere(store, execution)
    effect = Effect("sent")

    assert execution.step("send", effect, destination="vendor") == "sent"
    assert effect.calls == 1


@pytest.mark.clause("run.callback-guard.window", "run.own.rewind")
def test_a_forced_rewind_frees_the_step_for_another_destination(store: Store) -> None:
    execution = opened(store)
    fails(execution, AWAY)
    with pytest.raises(EffectElsewhere), execution:
        execution.step("send", Effect(), destination="other")

    rewind(store.here, execution.execution_id, reason="vendor did not charge", force=True)

    assert opened(store).step("send", Effect("sent"), destination="other") == "sent"


@pytest.mark.clause("run.callback-guard.window", "run.callback-guard.replay")
def test_a_callback_that_a_takeover_may_replay_is_replayed_at_its_own_destination_alone(store: Store) -> None:
    left_sending(store)
    taker = opened(store)

    sends_nothing_elsewhere(store, taker)

    assert taker.step("send", Effect("sent"), destination="vendor") == "sent"


@pytest.mark.clause("run.callback-guard.acquire", "run.callback-guard.blocked")
def test_a_guard_that_stands_is_what_another_destination_meets(store: Store) -> None:
    execution = opened(store, window=None)
    with pytest.raises(ExecutionTransferBlocked):
        execution.step("send", Effect(failing(AWAY)), schedule=ONCE, destination="vendor")
    stood, effect = guards(store), Effect()

    with pytest.raises(ExecutionTransferBlocked) as refusal:
        execution.step("send", effect, destination="other")

    assert (refusal.value.destination, effect.calls, guards(store)) == ("vendor", 0, stood)


@pytest.mark.clause("run.callback-guard.window")
@pytest.mark.parametrize("refusal", [REFUSED, Permanent("no such customer")])
def test_a_refusal_leaves_the_step_to_another_destination_whose_window_begins_anew(
    store: Store, refusal: Exception
) -> None:
    execution = opened(store)
    fails(execution, refusal)
    store.clock.advance(HOUR // 2)
    begun = store.clock.now()

    fails(execution, AWAY, at="other")

    (entry,) = store.entries(execution.execution_id)
    assert (entry.destination, entry.admitted_at, entry.doubts) == ("other", begun, 1)
    store.clock.advance(HOUR // 2)
    (guard,) = seen_by(store, execution, at="other")
    assert (guard.destination, guard.covered_until) == ("other", begun + HOUR)


@pytest.mark.clause("run.callback-guard.window")
def test_what_is_in_doubt_at_the_second_destination_is_not_sent_back_to_the_first(store: Store) -> None:
    execution = opened(store)
    fails(execution, REFUSED)
    fails(execution, AWAY, at="other")
    effect = Effect()

    with pytest.raises(EffectElsewhere) as refusal:
        execution.step("send", effect, destination="vendor")

    assert (refusal.value.destination, refusal.value.named, effect.calls) == ("other", "vendor", 0)


@pytest.mark.clause("run.callback-guard.window")
def test_a_withdrawn_admission_was_at_no_destination(store: Store) -> None:
    execution = opened(store)
    with pytest.raises(StepFailed) as failure:
        execution.step("send", overdue, schedule=ONCE, destination="vendor")
    (entry,) = store.entries(execution.execution_id)

    assert isinstance(failure.value.failure, EffectOverdue)
    assert (entry.destination, entry.admitted_at, entry.doubts) == (None, None, 0)
    assert execution.step("send", Effect("sent"), destination="other") == "sent"


@pytest.mark.clause("run.callback-guard.window")
def test_an_answer_or_a_withdrawal_after_an_unanswered_call_frees_nothing(store: Store) -> None:
    execution = opened(store)
    fails(execution, AWAY)
    fails(execution, REFUSED)
    with pytest.raises(StepFailed):
        execution.step("send", overdue, schedule=ONCE, destination="vendor")

    sends_nothing_elsewhere(store, execution)


@pytest.mark.clause("run.callback-guard.evidence")
def test_what_the_first_destination_never_saw_is_free_to_go_to_another(store: Store) -> None:
    dead = left_sending(store, window=None)
    reconcile(store, dead.guard, receipt(dead.guard, "absent"))

    (entry,) = store.entries(dead.execution.execution_id)
    assert (entry.destination, entry.admitted_at) == (None, None)
    assert opened(store, window=None).step("send", Effect("sent"), destination="other") == "sent"


@pytest.mark.clause("run.callback-guard.evidence")
def test_a_key_that_the_first_destination_still_knows_says_nothing_of_another(store: Store) -> None:
    dead = left_sending(store)
    reconcile(store, dead.guard, replayable(dead.guard))

    sends_nothing_elsewhere(store, opened(store))


@pytest.mark.clause("run.callback-guard.evidence")
@pytest.mark.parametrize("window", [None, HOUR])
def test_what_a_receipt_settled_stays_settled_whatever_the_step_names(store: Store, window: int | None) -> None:
    dead = left_sending(store, window=window)
    settled = receipt(dead.guard)
    reconcile(store, dead.guard, settled)
    before, effect = store.entries(dead.execution.execution_id), Effect()
    again = opened(store, window=window)

    with pytest.raises(EffectSettled) as refusal:
        again.step("send", effect, destination="other")

    assert (refusal.value.receipt, refusal.value.token, effect.calls) == (settled, dead.guard.token, 0)
    assert store.entries(dead.execution.execution_id) == before
    desk(store).supply(dead.guard.token, evidence=settled, operator="ops", value=recorded_bytes("charged"))
    assert again.step("send", effect, destination="other") == "charged"


@pytest.mark.clause("run.callback-guard.window")
def test_a_step_that_names_no_destination_is_told_which_one_it_called(store: Store) -> None:
    execution = opened(store)
    fails(execution, AWAY)

    with pytest.raises(EffectElsewhere, match="name vendor again") as refusal:
        execution.step("send", Effect())

    assert (refusal.value.destination, refusal.value.named) == ("vendor", "no destination")


def seen_by(store: Store, execution: Execution, *, at: str) -> list[Guard]:
    """The guards that stand while the step's effect is at work at a destination."""
    seen: list[Guard] = []
    execution.step("send", Effect(lambda: seen.extend(guards(store))), destination=at)
    return seen
