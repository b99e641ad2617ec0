"""The destination's window: it begins with an entry's first admission, and past it nothing in doubt is sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import EffectOverdue, EffectUnsettled, ExecutionTransferBlocked, RateLimited, StepFailed, Transient
from engine.rewind import rewind
from engine.schedule import Schedule
from tests.guarded import HOUR, ONCE, desk, engine_for, guards, left_sending, receipt, standing
from tests.stores import LEASE, Effect, Store, failing

if TYPE_CHECKING:
    from engine.execution.call import Call
    from engine.execution.execution import Execution
    from engine.guards.guard import Guard

AWAY = Transient("no answer came")
REFUSED = RateLimited("slow down")


def opened(store: Store, *, window: int | None = HOUR) -> Execution:
    return store.open(engine=engine_for(store, window=window))


def after(minutes: int, *, tries: int = 2) -> Schedule:
    """A schedule that tries again after so many minutes, within what is slept through."""
    return Schedule(
        attempts=tries, base_ms=minutes * 60_000, max_delay_ms=minutes * 60_000, backoff="fixed", jitter_ms=0
    )


def fails(execution: Execution, failure: Exception) -> None:
    with pytest.raises(StepFailed):
        execution.step("send", Effect(failing(failure)), schedule=ONCE, destination="vendor")


def seen_by(store: Store, execution: Execution) -> Guard:
    """The guard that stands while the step's effect is at work."""
    seen: list[Guard] = []
    execution.step("send", Effect(lambda: seen.extend(guards(store))), destination="vendor")
    (guard,) = seen
    return guard


@pytest.mark.clause("run.callback-guard.window")
@pytest.mark.parametrize("failure", [AWAY, REFUSED])
def test_the_window_of_every_later_guard_counts_from_the_first_admission(store: Store, failure: Exception) -> None:
    execution = opened(store)
    begun = store.clock.now()
    fails(execution, failure)
    store.clock.advance(HOUR // 2)

    guard = seen_by(store, execution)

    assert (guard.admitted_at, guard.covered_until) == (begun + HOUR // 2, begun + HOUR)


@pytest.mark.clause("run.callback-guard.window")
def test_a_takeover_counts_from_the_first_admission_too(store: Store) -> None:
    dead = left_sending(store)

    guard = seen_by(store, store.open(engine=engine_for(store)))

    assert guard.covered_until == dead.guard.admitted_at + HOUR


@pytest.mark.clause("run.callback-guard.window")
def test_a_destination_without_a_window_covers_nothing(store: Store) -> None:
    guard = seen_by(store, opened(store, window=None))

    assert (guard.window_ms, guard.covered_until) == (None, None)


@pytest.mark.clause("run.callback-guard.window")
def test_what_went_unanswered_is_not_sent_again_once_its_window_has_passed(store: Store) -> None:
    execution = opened(store)
    fails(execution, AWAY)
    store.clock.advance(HOUR)
    effect = Effect()

    with pytest.raises(EffectUnsettled) as refusal:
        execution.step("send", effect, destination="vendor")

    assert effect.calls == 0
    assert guards(store) == []
    assert "run rewind" in str(refusal.value)
    assert "--force" in str(refusal.value)


@pytest.mark.clause("run.callback-guard.window")
def test_a_retry_that_comes_after_the_window_does_not_send(store: Store) -> None:
    execution = opened(store, window=5 * 60_000)
    effect = Effect(failing(AWAY, AWAY))

    with pytest.raises(EffectUnsettled):
        execution.step("send", effect, schedule=after(4, tries=5), destination="vendor")

    assert effect.calls == 2


@pytest.mark.clause("run.callback-guard.window")
def test_an_answer_clears_its_own_admission_and_no_earlier_one(store: Store) -> None:
    execution = opened(store)
    fails(execution, AWAY)
    fails(execution, REFUSED)
    store.clock.advance(HOUR)

    with pytest.raises(EffectUnsettled):
        execution.step("send", Effect(), destination="vendor")

    assert [entry.doubts for entry in store.entries(execution.execution_id)] == [1]


@pytest.mark.clause("run.callback-guard.window")
def test_with_nothing_in_doubt_an_entry_is_sent_after_its_window_under_a_guard_that_covers_nothing(
    store: Store,
) -> None:
    execution = opened(store)
    fails(execution, REFUSED)
    store.clock.advance(HOUR)

    with pytest.raises(ExecutionTransferBlocked) as refusal:
        execution.step("send", Effect(failing(AWAY)), schedule=ONCE, destination="vendor")

    assert refusal.value.evidence_class == "unknown"
    assert [each.guard.token for each in standing(store)] == [refusal.value.token]


@pytest.mark.clause("run.callback-guard.window")
def test_a_withdrawn_first_admission_begins_no_window(store: Store) -> None:
    execution = opened(store)

    def overdue(call: Call) -> None:
        call.check(timeout_ms=HOUR)

    with pytest.raises(StepFailed) as failure:
        execution.step("send", overdue, schedule=ONCE, destination="vendor")
    store.clock.advance(2 * HOUR)

    assert isinstance(failure.value.failure, EffectOverdue)
    assert seen_by(store, execution).covered_until == store.clock.now() + HOUR


@pytest.mark.clause("run.callback-guard.window")
def test_a_withdrawn_later_admission_leaves_the_first_ones_window_and_doubt(store: Store) -> None:
    execution = opened(store)
    begun = store.clock.now()
    fails(execution, AWAY)
    store.clock.advance(1)

    def overdue(call: Call) -> None:
        call.check(timeout_ms=HOUR)

    with pytest.raises(StepFailed):
        execution.step("send", overdue, schedule=ONCE, destination="vendor")

    (entry,) = store.entries(execution.execution_id)
    assert (entry.doubts, entry.admitted_at) == (1, begun)


@pytest.mark.clause("run.callback-guard.window")
def test_a_resend_that_is_told_to_wait_waits_under_no_guard(store: Store) -> None:
    execution = opened(store)
    effect = Effect(failing(RateLimited("slow down", wait_ms=60_000), answer="sent"))
    seen: list[int] = []
    engine_clock = store.clock.wait

    def waiting(event: object, milliseconds: float) -> bool:
        if milliseconds > 1_000:
            seen.append(len(guards(store)))
        return engine_clock(event, milliseconds)  # type: ignore[arg-type] # the clock's own event

    store.clock.wait = waiting  # type: ignore[method-assign] # looks on while somebody waits

    assert execution.step("send", effect, destination="vendor") == "sent"
    assert seen == [0]


@pytest.mark.clause("run.callback-guard.window", "run.own.rewind")
def test_past_the_window_the_way_on_is_a_forced_rewind(store: Store) -> None:
    execution = opened(store)
    fails(execution, AWAY)
    store.clock.advance(HOUR)
    with pytest.raises(EffectUnsettled), execution:
        execution.step("send", Effect(), destination="vendor")

    rewind(store.here, execution.execution_id, reason="it was not charged", force=True)

    fresh = opened(store)
    assert fresh.step("send", Effect("sent"), destination="vendor") == "sent"
    assert fresh.execution_id != execution.execution_id


@pytest.mark.clause("run.callback-guard.window")
def test_an_unanswered_call_whose_window_ends_while_it_is_out_keeps_its_guard(store: Store) -> None:
    execution = store.open(engine=engine_for(store, window=LEASE, stalls=True))

    def away() -> None:
        store.clock.advance(LEASE)
        raise AWAY

    with pytest.raises(ExecutionTransferBlocked):
        execution.step("send", Effect(away), destination="vendor")

    (guard,) = guards(store)
    desk(store).reconcile(guard.token, evidence=receipt(guard), operator="ops")
    assert guards(store) == []
