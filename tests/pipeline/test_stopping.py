"""Stopping a table's run: at once where it waits, never in the middle of landing, and always so that it goes on."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import CancelTargetNotInFlight, RateLimited, Transient
from engine.schedule import Schedule
from engine.shapes import RunStatus
from engine.sql import call
from engine.stop import stop
from tests.pipeline.conftest import orders
from tests.pipeline.hanging import Hanging, ask, in_flight

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.walk import Landing
    from engine.runs import RunRow
    from tests.pipeline.conftest import Api, Shop

PATIENT = Schedule(attempts=5, base_ms=60_000, max_delay_ms=60_000, jitter_ms=0)


@pytest.fixture
def hanging(shop: Shop) -> Iterator[Hanging]:
    feed = Hanging(shop, hangs=1)
    shop.module.script = feed
    yield feed
    feed.release.set()


@pytest.mark.clause("run.cancel.one-token", "run.cancel.abandoned-work", "run.cancel.resumable-remains")
def test_a_stop_does_not_wait_for_a_page_that_hangs_and_the_next_run_goes_on(shop: Shop, hanging: Hanging) -> None:
    row = shop.run()

    assert (row.status, row.replayed, row.rows) == (RunStatus.CANCELED, 0, 0)
    assert row.error is not None
    assert row.error["tag"] == "Canceled"
    owner = shop.owner()
    assert owner is not None
    assert (owner.execution_id, owner.attempt) == (row.execution_id, None)
    assert shop.staged() == []
    hanging.release.set()
    resumed = shop.run()
    assert (resumed.status, resumed.execution_id, resumed.replayed) == (RunStatus.SUCCESS, row.execution_id, 1)
    assert (shop.ids(), hanging.read) == ([1, 2, 3], [0, 1, 1, 2])


@pytest.mark.clause("run.cancel.abandoned-work")
def test_the_late_answer_of_an_abandoned_pull_is_recorded_nowhere(shop: Shop, hanging: Hanging) -> None:
    row = shop.run()
    assert row.execution_id is not None
    before = shop.store.recorded(row.execution_id)

    hanging.release.set()
    assert hanging.answered.wait(5)
    for thread in threading.enumerate():
        if thread.name == f"contextful-{row.run_id}":
            thread.join(5)

    assert before == shop.store.recorded(row.execution_id) == ["pull:0"]
    assert shop.store.run(row.run_id).status is RunStatus.CANCELED


@pytest.mark.clause("run.cancel.abandoned-work", "run.journal.ledger-settles-first")
def test_the_request_of_an_abandoned_pull_is_settled_as_such(
    shop: Shop, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.pages = [orders(1), orders(2)]
    release, answer = threading.Event(), api.answer

    def hangs(page: int) -> Any:
        if page == 1 and not release.is_set():
            ask(shop)
            release.wait(10)
        return answer(page)

    monkeypatch.setattr(api, "answer", hangs)
    (row,) = shop.fire(api.table()).runs

    ledger = shop.store.here.profile.database.run(call("list_requests", execution_id=row.execution_id))[0]
    by_step = {step: (settled is not None, json.loads(sent)) for _, _, _, step, _, _, settled, sent in ledger}
    assert by_step["pull:0"] == (True, [{"method": "GET", "url": f"{api.url}/orders", "status": 200}])
    assert by_step["pull:1"] == (True, [{"method": "GET", "url": f"{api.url}/orders", "abandoned": True}])
    release.set()
    (resumed,) = shop.fire(api.table()).runs
    assert (resumed.status, resumed.replayed, shop.ids()) == (RunStatus.SUCCESS, 1, [1, 2])


@pytest.mark.clause("run.cancel.resumable-remains")
def test_a_stop_of_a_run_that_recorded_nothing_releases_its_owner_and_moves_no_position(shop: Shop) -> None:
    shop.feed.serves(orders(9))
    shop.run(incremental="at")
    before = shop.marker()
    feed = Hanging(shop, hangs=0)
    shop.module.script = feed

    row = shop.run(incremental="at")
    feed.release.set()

    assert row.status is RunStatus.CANCELED
    assert shop.owner() is None
    assert shop.marker() == before


@pytest.mark.clause("run.cancel.one-token", "run.cancel.resumable-remains")
def test_a_stop_ends_the_sleep_between_two_tries_of_a_pull(shop: Shop) -> None:
    def noticed(*_: Any) -> None:
        stop(engine.profile, *in_flight(shop))
        engine.stopping._poll()

    engine = shop.store.engine(noticed=noticed)
    shop.feed.serves(orders(1), orders(2))
    shop.feed.failures = {1: Transient("cut off")}

    row = shop.run(engine=engine, schedule=PATIENT)

    assert row.status is RunStatus.CANCELED
    assert shop.store.clock.waits == []
    assert shop.run(schedule=PATIENT).rows == 2
    assert shop.feed.read == [0, 1, 1]


@pytest.mark.clause("run.cancel.land-path-uncut")
def test_a_stop_that_comes_after_the_last_pull_lands_everything_and_stays_on_the_row(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2))

    def look(run: RunRow, landing: Landing) -> None:
        if not landing.meta.more:
            stop(shop.store.here.profile, run.run_id, reason="wrong month")
            shop.store.here.stopping._poll()

    (row,) = shop.fire(shop.table(), look=look).runs

    assert (row.status, row.rows, shop.ids()) == (RunStatus.SUCCESS, 2, [1, 2])
    assert row.stop == {"requested_at": shop.store.clock.now(), "scope": "run", "reason": "wrong month"}
    assert shop.store.run(row.run_id).stop == row.stop
    assert shop.owner() is None


@pytest.mark.clause("run.cancel.not-in-flight", "run.cancel.resumable-remains")
def test_a_waiting_run_that_no_process_holds_is_canceled_by_the_request(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2))
    shop.feed.failures = {1: RateLimited("slow down", wait_ms=600_000)}
    outcome = shop.fire(shop.table())
    (waiting,) = outcome.runs
    assert waiting.status is RunStatus.WAITING

    stop(shop.store.profile(), waiting.run_id, reason="wrong month")

    row = shop.store.run(waiting.run_id)
    assert (row.status, row.next_attempt_at, row.ended_at) == (RunStatus.CANCELED, None, shop.store.clock.now())
    owner = shop.owner()
    assert owner is not None
    assert (owner.attempt, owner.wake_at) == (None, None)
    (fired,) = shop.store.here.profile.database.run(call("read_fire", fire_id=outcome.fire_id))[0]
    assert fired[2] == "canceled"
    with pytest.raises(CancelTargetNotInFlight):
        stop(shop.store.profile(), waiting.run_id)
    shop.store.clock.advance(600_000)
    resumed = shop.run()
    assert (resumed.status, resumed.execution_id, shop.ids()) == (RunStatus.SUCCESS, row.execution_id, [1, 2])
