"""Backfills that are stopped or told to wait: what is left for a repeat, and how it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine import stop as stops
from engine.errors import Permanent, RateLimited
from engine.schedule import Schedule
from engine.shapes import FireState, RunStatus
from engine.stops import StopScope
from tests.pipeline.conftest import day

if TYPE_CHECKING:
    from tests.clocks import SettableClock
    from tests.pipeline.backfill.conftest import Archive


@pytest.mark.clause("run.cancel.resumable-remains")
def test_a_stopped_chunk_returns_to_pending_its_attempt_count_unchanged(archive: Archive) -> None:
    archive.past.failures[day(3)] = Permanent("gone")
    archive.backfill()
    assert archive.plan()[2].attempts == 1
    store = archive.shop.store

    def stopped(since: Any, page: int) -> None:
        if (since, page) == (day(3), 1):
            (owner,) = [owner for owner in store.here.owners.all() if owner.attempt]
            stops.stop(store.here.profile, str(owner.attempt))
            stopping.stopping._poll()

    archive.past.before, stopping = stopped, store.engine()
    ended = archive.backfill(engine=stopping)
    archive.past.before = lambda *_: None

    assert [chunk.run.status for chunk in ended.chunks if chunk.run] == [RunStatus.CANCELED]
    assert archive.states() == "ddpdd"
    assert archive.plan()[2].attempts == 1
    assert archive.shop.marker().position is None
    archive.past.asked.clear()
    assert archive.backfill().exit_code == 0
    assert archive.shop.ids() == archive.ids
    assert (day(3), day(4), 0) not in archive.past.asked


@pytest.mark.parametrize(("scope", "states"), [(StopScope.RUN, "dpddd"), (StopScope.PIPELINE, "dpppp")])
@pytest.mark.clause("run.cancel.two-grains")
def test_a_stop_of_the_pipeline_leaves_every_chunk_the_fire_had_left(
    archive: Archive, scope: StopScope, states: str
) -> None:
    store = archive.shop.store

    def stopped(since: Any, page: int) -> None:
        if (since, page) == (day(2), 1):
            (owner,) = [owner for owner in store.here.owners.all() if owner.attempt]
            stops.stop(store.here.profile, str(owner.attempt), scope=scope)
            stopping.stopping._poll()

    archive.past.before, stopping = stopped, store.engine()
    ended = archive.backfill(engine=stopping)
    archive.past.before = lambda *_: None

    assert archive.states() == states
    assert ended.exit_code == 130
    assert archive.backfill().exit_code == 0
    assert archive.shop.ids() == archive.ids


def test_an_engine_that_is_asked_to_stop_leaves_the_rest_and_a_repeat_goes_on(archive: Archive) -> None:
    engine = archive.shop.store.engine()
    archive.past.before = lambda since, page: engine.stop("interrupted") if (since, page) == (day(2), 1) else None

    ended = archive.backfill(engine=engine)
    archive.past.before = lambda *_: None

    assert (ended.exit_code, ended.state, archive.states()) == (130, FireState.CANCELED, "dpppp")
    assert archive.backfill().exit_code == 0
    assert archive.shop.ids() == archive.ids


def test_a_vendors_long_wait_leaves_the_rest_for_later_and_the_chunk_goes_on_as_itself(
    archive: Archive, clock: SettableClock
) -> None:
    archive.past.failures[day(2)] = RateLimited("slow down", wait_ms=3_600_000)
    table = archive.shop.table(incremental="at", schedule=Schedule(jitter_ms=0))

    ended = archive.backfill(table=table)

    assert (ended.exit_code, archive.states()) == (75, "dpppp")
    waiting = ended.chunks[-1].run
    assert waiting is not None
    assert waiting.status is RunStatus.WAITING
    clock.advance(3_600_001)
    again = archive.backfill(table=table)
    assert again.exit_code == 0
    assert archive.shop.store.run(waiting.run_id).status is RunStatus.SUCCESS
    assert archive.shop.ids() == archive.ids
