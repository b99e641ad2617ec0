"""The step's schedule: how often, after how long, for which failures, over however many processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import errors
from engine.clock import Chance
from engine.errors import ContextfulError, ExecutionSuperseded, Permanent, RateLimited, StepFailed, Transient
from engine.execution.execution import DEFAULT_SCHEDULE
from engine.execution.retry import Again, Stands, decide
from engine.schedule import Schedule
from engine.shapes import FailureTag, RunStatus
from tests.stores import LEASE, Died, Effect, Store, died, failing

if TYPE_CHECKING:
    from tests.clocks import SettableClock

EXACT = Schedule(attempts=4, base_ms=1_000, factor=3.0, max_delay_ms=5_000, jitter_ms=0)
AWAY = Transient("the vendor is away")
TAGGED = {
    FailureTag.TRANSIENT: AWAY,
    FailureTag.RATE_LIMITED: RateLimited("slow down"),
    FailureTag.PERMANENT: Permanent("never"),
    FailureTag.SCHEMA_INCOMPATIBLE: errors.SchemaIncompatible("types"),
    FailureTag.AUTH_EXPIRED: errors.AuthExpired("credential"),
    FailureTag.CONFIG: errors.Config("declaration"),
    FailureTag.STORAGE: errors.StorageFailure("disk"),
    FailureTag.UNKNOWN_CONNECTOR: errors.UnknownConnector("kind"),
    FailureTag.SECRET_NOT_FOUND: errors.SecretNotFound(name="TOKEN", path="source.headers"),
    FailureTag.CANCELED: errors.Canceled("stopped"),
}


def away(times: int) -> Effect:
    return Effect(failing(*[AWAY] * times))


@pytest.mark.clause("run.retry.schedule", "run.retry.decision-is-pure")
def test_delays_grow_by_the_factor_and_are_clamped(store: Store, clock: SettableClock) -> None:
    effect = away(3)

    store.open().step("ask", effect, schedule=EXACT)

    assert clock.waits == [1_000, 3_000, 5_000]
    assert effect.attempts == [1, 2, 3, 4]


@pytest.mark.clause("run.retry.schedule")
def test_a_fixed_schedule_waits_alike_each_time(store: Store, clock: SettableClock) -> None:
    store.open().step("ask", away(3), schedule=Schedule(backoff="fixed", base_ms=700, attempts=4, jitter_ms=0))

    assert clock.waits == [700] * 3


@pytest.mark.clause("run.retry.default-policy")
def test_by_default_a_step_is_tried_five_times_within_its_jitter(store: Store, clock: SettableClock) -> None:
    effect = away(9)

    with pytest.raises(StepFailed):
        store.open(engine=store.engine(seed=7)).step("ask", effect)

    assert effect.calls == 5
    assert all(0 <= wait - delay < 250 for delay, wait in zip((100, 200, 400, 800), clock.waits, strict=True))
    assert (DEFAULT_SCHEDULE.factor, DEFAULT_SCHEDULE.max_delay_ms) == (2.0, 30_000)


@pytest.mark.clause("run.retry.default-policy", "run.retry.decision-is-pure")
def test_one_seed_draws_the_same_waits_again(store: Store) -> None:
    twin, other = store.twin("twin"), store.twin("other")
    for one, seed in ((store, 7), (twin, 7)):
        one.open(engine=one.engine(seed=seed)).step("ask", away(4))
    other.open("other", engine=other.engine(seed=8)).step("ask", away(4))

    assert store.clock.waits == twin.clock.waits
    assert store.clock.waits != other.clock.waits


@pytest.mark.clause("run.retry.single-attempt")
def test_a_schedule_of_one_attempt_retries_nothing(store: Store, clock: SettableClock) -> None:
    effect = away(1)

    with pytest.raises(StepFailed) as failure:
        store.open().step("ask", effect, schedule=Schedule(attempts=1))

    assert (effect.calls, failure.value.attempts, clock.waits) == (1, 1, [])


@pytest.mark.clause("run.retry.retryable-classes", "run.retry.failure-taxonomy")
@pytest.mark.parametrize("tag", list(FailureTag))
def test_only_transient_and_rate_limited_are_tried_again(store: Store, tag: FailureTag) -> None:
    effect = Effect(failing(TAGGED[tag]))
    execution = store.open()

    if tag in {FailureTag.TRANSIENT, FailureTag.RATE_LIMITED}:
        assert execution.step("ask", effect) == "done"
    else:
        with pytest.raises(StepFailed) as failure:
            execution.step("ask", effect)
        assert failure.value.tag is tag
        assert effect.calls == 1


@pytest.mark.clause("run.retry.retryable-classes")
def test_a_schedule_may_narrow_what_it_retries(store: Store) -> None:
    narrowed = Schedule(retry_on=frozenset({FailureTag.RATE_LIMITED}))
    effect = away(1)

    with pytest.raises(StepFailed):
        store.open().step("ask", effect, schedule=narrowed)

    assert effect.calls == 1


@pytest.mark.clause("run.retry.step-failed")
def test_a_spent_schedule_raises_the_label_the_attempts_and_the_tag(store: Store) -> None:
    with pytest.raises(StepFailed, match="the vendor is away") as failure:
        store.open().step("ask", away(9), schedule=EXACT)

    facts = failure.value.facts
    assert (facts["step"], facts["attempts"], facts["underlying"]) == ("ask", 4, "Transient")
    assert failure.value.failure is AWAY


@pytest.mark.clause("run.retry.step-failed")
def test_a_failed_step_closes_its_run_with_the_tag_underneath(store: Store) -> None:
    execution = store.open()

    with pytest.raises(StepFailed), execution:
        execution.step("ask", Effect(failing(errors.AuthExpired("credential"))))

    row = store.run(execution.run_id)
    assert row.status is RunStatus.FAILED
    assert row.error is not None
    assert (row.error["tag"], row.error["name"]) == ("AuthExpired", "StepFailed")


@pytest.mark.clause("run.retry.failure-taxonomy")
def test_whatever_an_effect_raises_crosses_as_one_tagged_failure(store: Store) -> None:
    execution = store.open()

    for raised in (ValueError("bad"), KeyError("k"), OSError("disk")):
        with pytest.raises(StepFailed) as failure:
            execution.step("ask", Effect(failing(raised)))
        assert isinstance(failure.value.failure, ContextfulError)
        assert failure.value.tag is FailureTag.PERMANENT
        assert type(raised).__name__ in str(failure.value)


@pytest.mark.clause("run.retry.decision-is-pure")
@given(
    attempt=st.integers(1, 10),
    attempts=st.integers(1, 10),
    jitter=st.integers(0, 249),
    tag=st.sampled_from(list(FailureTag)),
)
def test_the_decision_depends_on_the_attempt_and_the_failure_alone(
    attempt: int, attempts: int, jitter: int, tag: FailureTag
) -> None:
    schedule = Schedule(attempts=attempts)

    decision = decide(schedule, attempt=attempt, failure=TAGGED[tag], jitter_ms=jitter)

    assert decision == decide(schedule, attempt=attempt, failure=TAGGED[tag], jitter_ms=jitter)
    if tag not in {FailureTag.TRANSIENT, FailureTag.RATE_LIMITED} or attempt >= attempts:
        assert decision == Stands()
    else:
        assert decision == Again(min(100 * 2 ** (attempt - 1), 30_000) + jitter)


@pytest.mark.clause("run.retry.decision-is-pure")
def test_jitter_comes_from_the_seed() -> None:
    assert [Chance.seeded(3).jitter(250) for _ in range(2)] == [Chance.seeded(3).jitter(250)] * 2
    assert Chance.seeded(3).jitter(0) == 0


@pytest.mark.clause("run.retry.one-layer")
def test_a_wait_the_vendor_asks_for_goes_through_the_schedule_and_supersedes_it(
    store: Store, clock: SettableClock
) -> None:
    effect = Effect(failing(RateLimited("slow down", wait_ms=7_000), AWAY))

    store.open().step("ask", effect, schedule=EXACT)

    assert clock.waits == [7_000, 3_000]
    assert effect.attempts == [1, 2, 3]


@pytest.mark.clause("run.retry.one-layer")
def test_a_step_inside_a_step_multiplies_no_attempts(store: Store) -> None:
    execution = store.open()
    inner = away(99)

    with pytest.raises(StepFailed) as failure:
        execution.step("outer", Effect(lambda: execution.step("inner", inner, schedule=EXACT)), schedule=EXACT)

    assert inner.calls == EXACT.attempts
    assert isinstance(failure.value.failure, StepFailed)


@pytest.mark.clause("run.retry.schedule", "run.retry.not-before")
@pytest.mark.parametrize("dies_at", [1, 2, 3])
def test_attempts_over_all_restarts_are_the_schedules_count(store: Store, clock: SettableClock, dies_at: int) -> None:
    effect = away(99)
    before: Effect = Effect(lambda: _away_until_it_dies(before, dies_at))
    with pytest.raises(Died):
        store.elsewhere().step("ask", before, schedule=EXACT)
    clock.advance(LEASE)

    with pytest.raises(StepFailed) as failure:
        store.open().step("ask", effect, schedule=EXACT)

    # The try that a crash cut short was never counted: its effect may not have begun.
    assert before.calls - 1 + effect.calls == EXACT.attempts
    assert failure.value.attempts == EXACT.attempts


@pytest.mark.clause("run.retry.not-before", "run.retry.resume-at")
def test_a_restart_waits_only_what_is_left_of_the_wait(store: Store, clock: SettableClock) -> None:
    slow = Schedule(attempts=2, base_ms=2 * LEASE, max_delay_ms=2 * LEASE, jitter_ms=0)
    stopped = store.elsewhere()
    effect = Effect(failing(AWAY))
    clock.interrupt(Died())
    with pytest.raises(Died):
        stopped.step("ask", effect, schedule=slow)
    clock.advance(LEASE + 500)
    clock.waits.clear()

    store.open().step("ask", effect, schedule=slow)

    assert clock.waits == [LEASE - 500]
    assert effect.attempts == [1, 2]


@pytest.mark.clause("run.retry.step-failed")
def test_a_failed_step_is_asked_anew_by_the_next_caller_with_a_fresh_budget(store: Store) -> None:
    execution = store.open()
    with pytest.raises(StepFailed):
        execution.step("ask", away(99), schedule=EXACT)
    again = away(3)

    assert execution.step("ask", again, schedule=EXACT) == "done"
    assert again.attempts == [1, 2, 3, 4]
    assert execution.step("ask", died) == "done"


@pytest.mark.clause("run.journal.current-owner")
def test_a_retry_ends_when_its_owner_is_gone(store: Store, clock: SettableClock) -> None:
    stalled = store.elsewhere()
    effect = Effect(lambda: _lose(store, clock))

    with pytest.raises(ExecutionSuperseded):
        stalled.step("ask", effect, schedule=EXACT)

    assert effect.calls == 1


def _away_until_it_dies(effect: Effect, dies_at: int) -> None:
    if effect.calls == dies_at:
        raise Died
    raise AWAY


def _lose(store: Store, clock: SettableClock) -> None:
    clock.advance(LEASE)
    store.open()
    raise AWAY


@pytest.mark.clause("run.retry.retry-after", "run.retry.not-before")
def test_the_last_allowed_try_leaves_the_instant_it_was_told_to_the_next_caller(
    store: Store, clock: SettableClock
) -> None:
    execution = store.open()
    execution.step("before", Effect(1))
    throttled = Effect(failing(RateLimited("slow down", wait_ms=40_000)))
    with pytest.raises(StepFailed) as failed:
        execution.step("ask", throttled, schedule=Schedule(attempts=1))
    execution.close(failure=failed.value)
    clock.advance(10_000)

    resumed = store.open()
    answered_at: list[int] = []
    resumed.step("ask", Effect(lambda: answered_at.append(clock.now())), schedule=Schedule(attempts=1))

    assert clock.waits == [30_000]
    assert len(answered_at) == 1
