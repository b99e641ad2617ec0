"""A meter answers at once, counts for every process of the store, and leaves every wait to the step's schedule."""

from __future__ import annotations

import pytest

from engine.errors import Config, RateLimited
from engine.meters import Pace, Quota, Reply, SqlMeter

MINUTE = 60_000
THREE = Quota("issues", 3, MINUTE)


@pytest.fixture
def meter(store):
    return SqlMeter(store.profile().database)


def test_a_quota_is_granted_to_its_last_permit_and_then_denied_with_the_wait(meter, clock):
    granted = [meter.acquire(THREE, 1) for _ in range(3)]
    clock.advance(1_000)

    denied = meter.acquire(THREE, 1)

    assert granted == [Reply(granted=True)] * 3
    assert denied == Reply(granted=False, wait_ms=MINUTE - 1_000)


def test_the_wait_is_exact_to_the_millisecond(meter, clock):
    meter.acquire(THREE, 3)
    wait = meter.acquire(THREE, 1).wait_ms

    clock.advance(wait - 1)
    early = meter.acquire(THREE, 1)
    clock.advance(1)

    assert early == Reply(granted=False, wait_ms=1)
    assert meter.acquire(THREE, 1).granted


def test_no_stretch_of_the_window_grants_more_than_the_limit_wherever_it_begins(meter, clock):
    granted = []
    for _ in range(200):
        clock.advance(7_001)
        if meter.acquire(THREE, 1).granted:
            granted.append(clock.now())

    assert len(granted) > 60
    assert all(later - first >= MINUTE for first, later in zip(granted, granted[3:], strict=False))


def test_several_permits_come_together_or_not_at_all(meter, clock):
    meter.acquire(THREE, 1)
    clock.advance(20_000)
    meter.acquire(THREE, 1)

    denied = meter.acquire(THREE, 3)

    assert denied == Reply(granted=False, wait_ms=MINUTE)
    assert meter.acquire(THREE, 2) == Reply(granted=False, wait_ms=40_000)
    assert meter.acquire(THREE, 1).granted


def test_processes_of_one_store_share_a_quota(store, meter):
    elsewhere = SqlMeter(store.profile().database)

    meter.acquire(THREE, 2)

    assert elsewhere.acquire(THREE, 1).granted
    assert not meter.acquire(THREE, 1).granted


@pytest.mark.clause("run.retry.pressure-is-local")
def test_a_spent_quota_holds_up_no_other(meter):
    meter.acquire(THREE, 3)

    assert not meter.acquire(THREE, 1).granted
    assert meter.acquire(Quota("users", 3, MINUTE), 3).granted


def test_a_denial_spends_nothing(meter, clock):
    meter.acquire(THREE, 3)
    for _ in range(50):
        meter.acquire(THREE, 1)

    clock.advance(MINUTE)

    assert meter.acquire(THREE, 3).granted


def test_what_could_never_be_granted_is_refused_at_once(meter):
    with pytest.raises(Config, match="grants 1 to 3"):
        meter.acquire(THREE, 4)


def test_a_clock_that_was_set_back_holds_a_quota_for_two_windows_at_most(meter, clock):
    clock.advance(365 * 24 * 60 * MINUTE)
    meter.acquire(THREE, 3)
    clock.advance(-364 * 24 * 60 * MINUTE)

    assert meter.acquire(THREE, 3).granted


@pytest.mark.clause("run.retry.one-layer")
def test_a_denial_goes_to_the_schedule_as_a_throttle_with_its_wait(meter, clock):
    pace, began = Pace(meter, THREE), clock.now()
    for _ in range(3):
        pace.step()

    with pytest.raises(RateLimited) as denial:
        pace.step()

    assert denial.value.wait_ms == MINUTE
    assert clock.now() == began, "the meter itself waits for nothing"
