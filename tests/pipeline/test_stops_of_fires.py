"""A stop of a run, of a pipeline or of the engine, and what it leaves of a fire of several tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import CANCELED, ExecutionLive
from engine.pipeline.declaration import Pipeline
from engine.pipeline.runner import Request, fire
from engine.pipeline.source import Secrets
from engine.shapes import FireState, RunStatus
from engine.stop import stop
from engine.stops import StopScope
from tests.pipeline.conftest import Feed, Silent, orders
from tests.pipeline.hanging import Hanging

if TYPE_CHECKING:
    from engine.pipeline.walk import Landing
    from engine.runs import RunRow
    from tests.pipeline.conftest import Shop


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
