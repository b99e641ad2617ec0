"""Stopping a table's run: at once where it waits, never in the middle of landing, and always so that it goes on."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import CANCELED, CancelTargetNotInFlight, ExecutionLive, RateLimited, Transient
from engine.execution.stopping import POLL_MS
from engine.pipeline.declaration import Pipeline
from engine.pipeline.runner import Request, fire
from engine.pipeline.source import Secrets
from engine.shapes import FireState, Pull, RunStatus, Schedule
from engine.sql import call
from engine.stop import stop
from engine.stops import StopScope
from tests.pipeline.conftest import Feed, Silent, orders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.source import Ask
    from engine.pipeline.walk import Landing
    from engine.runs import RunRow
    from tests.pipeline.conftest import Api, Shop

PATIENT = Schedule(attempts=5, base_ms=60_000, max_delay_ms=60_000, jitter_ms=0)


def in_flight(shop: Shop) -> list[str]:
    return [row.run_id for row in shop.store.here.runs.since(0, ceiling=100) if not row.status.terminal]


def ask(shop: Shop, *, scope: StopScope = StopScope.RUN) -> None:
    """Stop what is in flight as another process would, and let half a second pass."""
    (run_id, *_) = in_flight(shop)
    stop(shop.store.here.profile, run_id, scope=scope, reason="wrong month")
    shop.store.clock.advance(POLL_MS)
    shop.store.here.keeper.wake()


class Hanging(Feed):
    """A feed whose page `hangs` asks for the stop and then does not answer before it is released."""

    def __init__(self, shop: Shop, *, hangs: int, scope: StopScope = StopScope.RUN) -> None:
        super().__init__([orders(1), orders(2), orders(3)])
        self.shop, self.hangs, self.scope = shop, hangs, scope
        self.release, self.answered = threading.Event(), threading.Event()

    def __call__(self, asked: Ask) -> Iterator[Pull]:
        for pull in super().__call__(asked):
            if self.read[-1] == self.hangs and not self.release.is_set():
                ask(self.shop, scope=self.scope)
                self.release.wait(10)
                self.answered.set()
            yield pull


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


@pytest.mark.clause("run.cancel.two-grains")
def test_a_run_stop_leaves_the_rest_of_the_fire_alone(shop: Shop) -> None:
    feed = Hanging(shop, hangs=0)
    shop.module.script = feed
    other = Feed([orders(7)])
    shop.module.feeds["other"] = other

    outcome = shop.fire(shop.table("orders"), shop.table("items", entry="other"))
    feed.release.set()

    assert [run.status for run in outcome.runs] == [RunStatus.CANCELED, RunStatus.SUCCESS]
    assert (outcome.state, outcome.exit_code) == (FireState.CANCELED, CANCELED)


@pytest.mark.clause("run.cancel.two-grains")
def test_a_pipeline_stop_halts_the_run_and_every_table_the_fire_had_left(shop: Shop) -> None:
    feed = Hanging(shop, hangs=0, scope=StopScope.PIPELINE)
    shop.module.script = feed
    other = Feed([orders(7)])
    shop.module.feeds["other"] = other

    outcome = shop.fire(shop.table("orders"), shop.table("items", entry="other"))
    feed.release.set()

    assert [run.status for run in outcome.runs] == [RunStatus.CANCELED]
    assert other.read == []
    assert (outcome.state, outcome.exit_code) == (FireState.CANCELED, CANCELED)


@pytest.mark.clause("run.cancel.two-grains", "run.cancel.land-path-uncut")
def test_a_pipeline_stop_that_comes_too_late_for_one_table_still_halts_the_next(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    other = Feed([orders(7)])
    shop.module.feeds["other"] = other

    def look(run: RunRow, _: Landing) -> None:
        stop(shop.store.here.profile, run.run_id, scope=StopScope.PIPELINE)

    outcome = shop.fire(shop.table("orders"), shop.table("items", entry="other"), look=look)

    assert [run.status for run in outcome.runs] == [RunStatus.SUCCESS]
    assert (other.read, outcome.state) == ([], FireState.CANCELED)


@pytest.mark.clause("run.cancel.two-grains", "run.cancel.authority-from-the-record")
def test_a_pipeline_stop_marks_what_is_in_flight_of_the_recorded_pipeline_only(shop: Shop) -> None:
    engine, profile = shop.store.here, shop.store.profile()
    runs = [
        engine.new_run(f"r-{number}", plan_ref="p", pipeline_id=pipeline, table=f"t{number}", fire_id="f-1")
        for number, pipeline in enumerate(("shop", "shop", "mill"))
    ]
    for run in runs:
        engine.runs.insert(run)
    engine.runs.insert(engine.new_run("r-3", plan_ref="p", pipeline_id="shop").ended(RunStatus.FAILED, at=0))

    marked = stop(profile, "r-1", scope=StopScope.PIPELINE)

    assert marked == ["r-0", "r-1"]
    assert [engine.runs.get(f"r-{n}").stop is not None for n in range(4)] == [True, True, False, False]  # type: ignore[union-attr] # inserted above


@pytest.mark.clause("run.cancel.two-grains")
def test_a_stopped_engine_leaves_the_tables_it_has_not_begun(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    other = Feed([orders(7)])
    shop.module.feeds["other"] = other
    engine = shop.store.engine()

    outcome = shop.fire(
        shop.table("orders"),
        shop.table("items", entry="other"),
        engine=engine,
        look=lambda *_: engine.stop("interrupted"),
    )

    assert [run.status for run in outcome.runs] == [RunStatus.SUCCESS]
    assert [str(refusal) for refusal in outcome.refusals] == ["interrupted"]
    assert (other.read, outcome.state, outcome.exit_code) == ([], FireState.CANCELED, CANCELED)


@pytest.mark.clause("run.cancel.one-token")
def test_a_wait_for_a_live_run_ends_with_the_engine(shop: Shop) -> None:
    feed = Hanging(shop, hangs=99)
    shop.module.script = feed
    table, engine = shop.table(), shop.store.engine()

    def beside(*_: Any) -> None:
        def patience(_: ExecutionLive) -> bool:
            engine.stop("interrupted")
            return True

        request = Request(Pipeline("shop", (table,)), (table,), await_live=patience)
        outcomes.append(fire(engine, request, secrets=Secrets({}), watcher=Silent()))

    outcomes: list[Any] = []
    shop.fire(table, look=lambda run, landing: beside() if landing.number == 0 else None)

    (outcome,) = outcomes
    assert (outcome.runs, outcome.state, outcome.exit_code) == ((), FireState.CANCELED, CANCELED)
    assert shop.ids() == [1, 2, 3]


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
