"""A metered source: a permit before each pull, none on replay, every wait the schedule's."""

from __future__ import annotations

import pytest

from engine.meters import Quota, SqlMeter
from engine.schedule import Schedule
from engine.shapes import RunStatus
from tests.pipeline.conftest import orders

MINUTE = 60_000
TWO = Quota("pipeline:shop", 2, MINUTE)
PATIENT = Schedule(attempts=3, base_ms=1, jitter_ms=0)


@pytest.fixture
def taken(monkeypatch):
    """The instants at which a permit was asked for, and whether it was granted."""
    asked, acquire = [], SqlMeter.acquire

    def watched(self, quota, n):
        reply = acquire(self, quota, n)
        asked.append(reply.granted)
        return reply

    monkeypatch.setattr(SqlMeter, "acquire", watched)
    return asked


@pytest.mark.clause("run.retry.one-layer", "run.retry.not-before")
def test_a_walk_longer_than_its_quota_waits_by_the_schedule_and_asks_for_each_page_once(shop, clock, taken):
    shop.feed.serves(*(orders(number) for number in range(5)))
    began = clock.now()

    row = shop.run(meter=TWO, schedule=PATIENT)

    assert (row.status, shop.feed.read) == (RunStatus.SUCCESS, [0, 1, 2, 3, 4])
    assert taken == [True, True, False, True, True, False, True]
    assert clock.now() - began == 2 * MINUTE


@pytest.mark.clause("run.retry.no-double-spend")
def test_a_replayed_pull_takes_no_permit(shop, taken):
    shop.feed.serves(orders(1), orders(2))
    shop.feed.failures[1] = RuntimeError("down")
    shop.run(meter=TWO)
    taken.clear()

    row = shop.run(meter=Quota("pipeline:shop", 3, MINUTE))

    assert (row.status, row.replayed, taken) == (RunStatus.SUCCESS, 1, [True])


@pytest.mark.clause("run.retry.one-layer")
def test_a_denial_that_outlasts_the_schedule_fails_as_a_throttle(shop, taken):
    shop.feed.serves(orders(1), orders(2), orders(3))

    row = shop.run(meter=TWO, schedule=Schedule(attempts=1))

    assert row.error is not None
    assert (row.status, row.error["tag"]) == (RunStatus.FAILED, "RateLimited")
    assert "pipeline:shop (2 in 60 s)" in row.error["message"]
    assert shop.feed.read == [0, 1], "nothing left for the page without a permit"


@pytest.mark.clause("run.retry.pressure-is-local")
def test_a_spent_quota_paces_its_own_source_only(shop, clock):
    shop.feed.serves(orders(1))
    began = clock.now()
    meter = SqlMeter(shop.store.here.profile.database)
    meter.acquire(TWO, 2)

    row = shop.run(meter=Quota("table:orders", 2, MINUTE), schedule=Schedule(attempts=1))

    assert (row.status, clock.now()) == (RunStatus.SUCCESS, began)
