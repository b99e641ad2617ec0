"""What a sweep leaves to runs that are alive, pending, waiting or stopped."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from engine.errors import RateLimited
from engine.shapes import Pull, RunStatus
from engine.sweep import KEPT_MS, Leavings
from tests.pipeline.conftest import day, orders
from tests.pipeline.sweeping import LARGE, NOTHING, age, before_its_marker, dying_at_its_marker, given_up, parts, swept
from tests.stores import LEASE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.source import Ask
    from tests.pipeline.conftest import Shop


@pytest.mark.clause("run.own.stage-discard")
def test_a_pending_owner_keeps_everything_of_its_execution(shop: Shop) -> None:
    """A dead run that a resume goes on from: nothing of it is taken, however old it is."""
    shop.feed.serves(orders(1), orders(2))
    dying_at_its_marker(shop)
    shop.store.here.reap()
    before = shop.staged(), parts(shop)
    age(shop)

    assert swept(shop) == NOTHING
    assert (shop.staged(), parts(shop)) == before
    assert shop.run().replayed == 2


def test_a_live_run_keeps_everything_however_long_it_takes(shop: Shop) -> None:
    taken: list[Leavings] = []
    staged: list[list[str]] = []

    def source(_: Ask) -> Iterator[Pull]:
        yield Pull(rows=orders(1), position=1, more=True)
        scratch = shop.store.here.profile.scratch
        for path in [scratch, *scratch.rglob("*")]:
            os.utime(path, (1, 1))
        taken.append(swept(shop))
        staged.append(shop.staged())
        yield Pull(rows=orders(2), position=2)

    shop.module.script = source
    row = shop.run(run_id="r")

    assert (taken, staged) == ([NOTHING], [["r/000000.arrow"]])
    assert row.status is RunStatus.SUCCESS
    assert shop.ids() == [1, 2]


def test_a_waiting_attempt_keeps_what_it_recorded(shop: Shop) -> None:
    shop.feed.serves([{"id": 1, "at": day(1), "text": LARGE}], orders(2))
    shop.feed.failures = {1: RateLimited("later", wait_ms=3 * KEPT_MS)}
    waiting = shop.run(run_id="r")
    (shop.store.here.profile.scratch / "r").mkdir(parents=True, exist_ok=True)
    age(shop, by=2 * KEPT_MS)

    assert waiting.status is RunStatus.WAITING
    assert swept(shop) == NOTHING
    shop.store.clock.advance(2 * KEPT_MS)
    assert shop.run().replayed == 1


@pytest.mark.clause("run.journal.current-owner")
def test_a_process_stopped_before_its_marker_loses_nothing_it_could_still_publish(shop: Shop) -> None:
    """It has looked at its owner and creates its marker next; meanwhile its work was given up and days have passed."""
    stopped = shop.store.stalled()
    taken: list[Leavings] = []

    def meanwhile() -> None:
        shop.store.clock.advance(LEASE + 1)
        given_up(shop)
        age(shop)
        taken.append(swept(shop))

    before_its_marker(stopped, meanwhile)
    shop.feed.serves(orders(1))
    shop.fire(shop.table(), engine=stopped, run_id="late")

    assert [leavings.parts for leavings in taken] == [()]
    named = [part.name for part in shop.marker().parts]
    assert named == parts(shop), "whatever a marker names is there"
    assert shop.ids() == [1]


@pytest.mark.clause("run.journal.current-owner")
def test_a_stopped_process_that_was_superseded_and_swept_lands_nothing(shop: Shop) -> None:
    stopped = shop.store.stalled()
    taken: list[Leavings] = []

    def meanwhile() -> None:
        shop.store.clock.advance(LEASE + 1)
        shop.run(run_id="taker")
        age(shop)
        taken.append(swept(shop))

    before_its_marker(stopped, meanwhile)
    shop.feed.serves(orders(1))
    (late,) = shop.fire(shop.table(), engine=stopped, run_id="late").runs

    assert taken[0].parts == ("orders/parts/late/000000.parquet",)
    assert late.error is not None
    assert late.error["name"] == "ExecutionSuperseded"
    assert [part.name for part in shop.marker().parts] == parts(shop) == ["orders/parts/taker/000000.parquet"]
    assert shop.ids() == [1]
