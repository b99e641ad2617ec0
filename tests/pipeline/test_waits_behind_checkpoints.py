"""A wait that comes behind a checkpoint: the walk begins anew, and what the vendor asked for still holds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import RateLimited
from engine.pipeline.checkpoints import Limits
from engine.schedule import Schedule
from engine.shapes import RunStatus
from tests.pipeline.conftest import day, orders

if TYPE_CHECKING:
    from engine.runs import RunRow
    from tests.clocks import SettableClock
    from tests.pipeline.conftest import Shop

HOUR = 3_600_000
EXACT = Schedule(attempts=3, jitter_ms=0)
ANEW: dict[str, Any] = {"incremental": "at", "primary_key": ("id",), "schedule": EXACT}
"""A watermark's walk, which begins anew behind a checkpoint."""


def run(shop: Shop) -> RunRow:
    """One run by a process of its own, each pull a checkpoint."""
    engine = shop.store.engine()
    engine.settings = replace(engine.settings, limits=Limits(checkpoint=1))
    return shop.run(engine=engine, **ANEW)


def parked(shop: Shop) -> RunRow:
    """A run that waits for an hour behind two checkpoints, one pull recorded since."""
    shop.feed.serves(*(orders(number, at=day(number)) for number in range(1, 6)))
    shop.feed.failures = {3: RateLimited("slow down", wait_ms=HOUR)}
    return run(shop)


@pytest.mark.clause("run.retry.resume-at", "run.own.checkpoint-resume")
def test_a_walk_that_begins_anew_asks_nothing_before_the_instant_its_former_pull_was_told(
    shop: Shop, clock: SettableClock
) -> None:
    due = parked(shop).next_attempt_at
    shop.feed.read.clear()
    clock.advance(HOUR // 2)

    early = run(shop)
    clock.advance(HOUR // 2)
    late = run(shop)

    assert (early.status, early.next_attempt_at, late.status) == (RunStatus.WAITING, due, RunStatus.SUCCESS)
    assert shop.feed.read == [0, 1, 2, 3, 4], "asked since the checkpoint, once"
    assert shop.ids() == [1, 2, 3, 4, 5]


@pytest.mark.clause("run.retry.not-before")
def test_the_budget_of_a_pull_goes_on_in_the_walk_that_begins_anew(shop: Shop, clock: SettableClock) -> None:
    statuses = [parked(shop).status]
    for _ in range(2):
        clock.advance(HOUR)
        shop.feed.failures = {0: RateLimited("slow down", wait_ms=HOUR)}
        statuses.append(run(shop).status)

    assert statuses == [RunStatus.WAITING, RunStatus.WAITING, RunStatus.FAILED]


@pytest.mark.clause("run.retry.resume-at", "run.retry.no-double-spend")
def test_a_wait_in_the_new_walk_is_its_own_and_goes_on_from_what_that_walk_recorded(
    shop: Shop, clock: SettableClock
) -> None:
    parked(shop)
    clock.advance(HOUR)
    shop.feed.failures = {1: RateLimited("slow down", wait_ms=HOUR)}
    assert run(shop).status is RunStatus.WAITING
    clock.advance(HOUR)
    shop.feed.read.clear()

    last = run(shop)

    assert (last.status, last.replayed) == (RunStatus.SUCCESS, 1)
    assert shop.feed.read == [1, 2, 3, 4]
    assert shop.ids() == [1, 2, 3, 4, 5]
