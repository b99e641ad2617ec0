"""The retry decision over every small schedule, attempt and failure."""

from __future__ import annotations

from itertools import product

import pytest

from engine.errors import ContextfulError, RateLimited
from engine.execution.retry import Again, Stands, computed_delay, decide
from engine.schedule import RETRYABLE, Schedule
from engine.shapes import FailureTag
from tests.scale import scale

NARROWINGS = [*(frozenset({tag}) for tag in sorted(RETRYABLE)), RETRYABLE]
SCHEDULES = [
    Schedule(attempts, base_ms, factor, max_delay_ms, jitter_ms, backoff, retry_on)
    for attempts, base_ms, factor, max_delay_ms, jitter_ms, backoff, retry_on in product(
        scale(short=(1, 2, 5, 1000), full=(1, 2, 3, 4, 5, 8, 100, 1000)),
        (0, 1, 100),
        (1.0, 2.0, 10.0),
        (0, 1, 30_000),
        (0, 250),
        ("fixed", "exponential"),
        NARROWINGS,
    )
]
WAITS = (None, 0, 7, 10_000_000)


def failures(words: str = "cut off") -> list[ContextfulError]:
    """One failure of each tag, and a refusal for each wait a server may ask for."""
    return [_failure(tag, words) for tag in FailureTag] + [RateLimited(words, wait_ms=wait) for wait in WAITS]


def attempts(schedule: Schedule) -> set[int]:
    """The attempts at which something may change, and one past the last."""
    last = schedule.attempts
    return {n for n in (1, 2, 3, last - 1, last, last + 1) if n >= 1}


def decisions(schedule: Schedule, words: str = "cut off"):
    """Every decision the schedule can come to: the attempt, the failure, the jitter drawn and what follows."""
    draws = {0, max(schedule.jitter_ms - 1, 0)}
    for attempt, failure, jitter_ms in product(attempts(schedule), failures(words), draws):
        yield attempt, failure, jitter_ms, decide(schedule, attempt=attempt, failure=failure, jitter_ms=jitter_ms)


@pytest.mark.clause("run.retry.retryable-classes")
def test_only_a_retryable_failure_that_the_schedule_names_is_tried_again():
    for schedule in SCHEDULES:
        for _, failure, _, decision in decisions(schedule):
            assert isinstance(decision, Stands) or failure.tag in RETRYABLE & schedule.retry_on


@pytest.mark.clause("run.retry.schedule")
def test_a_schedule_allows_as_many_attempts_as_it_says_and_no_more():
    for schedule in SCHEDULES:
        for failure in failures():
            retried = {
                n for n in attempts(schedule) if decide(schedule, attempt=n, failure=failure, jitter_ms=0) != Stands()
            }
            allowed = failure.tag in RETRYABLE & schedule.retry_on
            assert retried == {n for n in attempts(schedule) if allowed and n < schedule.attempts}


@pytest.mark.clause("run.retry.single-attempt")
def test_a_schedule_of_one_attempt_never_tries_again():
    single = [schedule for schedule in SCHEDULES if schedule.attempts == 1]

    assert single
    assert all(decision == Stands() for schedule in single for *_, decision in decisions(schedule))


@pytest.mark.clause("run.retry.schedule", "run.retry.retry-after")
def test_no_delay_passes_the_clamp_and_the_jitter_but_the_one_a_server_asked_for():
    for schedule in SCHEDULES:
        for _, failure, jitter_ms, decision in decisions(schedule):
            if not isinstance(decision, Again):
                continue
            asked = failure.wait_ms if isinstance(failure, RateLimited) else None
            if asked is not None:
                assert decision.delay_ms == asked
            else:
                assert jitter_ms <= decision.delay_ms <= schedule.max_delay_ms + jitter_ms


@pytest.mark.clause("run.retry.schedule")
def test_an_exponential_delay_never_shrinks_and_a_fixed_one_never_grows():
    for schedule in SCHEDULES:
        delays = [computed_delay(schedule, attempt=n) for n in sorted(attempts(schedule))]
        assert delays == sorted(delays)
        assert schedule.backoff != "fixed" or len(set(delays)) == 1


@pytest.mark.clause("run.retry.decision-is-pure")
def test_a_decision_is_a_function_of_the_attempt_the_tag_and_the_draw_alone():
    for schedule in SCHEDULES[:: scale(short=7, full=1)]:
        first, again = decisions(schedule), decisions(schedule, "other words")
        assert [decision for *_, decision in first] == [decision for *_, decision in again]


def _failure(tag: FailureTag, words: str) -> ContextfulError:
    failure = ContextfulError(words)
    failure.tag = tag  # type: ignore[misc]  # a failure of each tag, whichever class bears it
    return failure
