"""What work costs at D1: round trips, statements, rows read and rows written, as the binding counts them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

from d1.binding import Spent
from tests.pipeline.conftest import shop  # noqa: F401 - the fixture

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.host import Engine


def spent(engine: Engine) -> Spent:
    return Spent(**asdict(engine.profile.database.binding.spent))  # type: ignore[attr-defined]


def cost(engine: Engine, work: Callable[[], object]) -> Spent:
    before = spent(engine)
    work()
    after = spent(engine)
    return Spent(**{name: value - asdict(before)[name] for name, value in asdict(after).items()})


@pytest.mark.clause("run.journal.d1-profile")
def test_a_step_is_two_round_trips_and_two_rows_written(store):
    engine = store.here
    with store.open() as execution:
        execution.step("warm", lambda _: 1)

        one = cost(engine, lambda: execution.step("one", lambda _: {"answer": 42}))
        replayed = cost(engine, lambda: execution.step("one", lambda _: {"answer": 42}))

    assert (one.round_trips, one.statements, one.rows_written) == (2, 2, 2)
    assert one.rows_read <= 8
    assert (replayed.round_trips, replayed.rows_written) == (2, 0)


def test_a_steps_cost_does_not_grow_with_the_journal(store):
    engine = store.here
    with store.open() as execution:
        early = cost(engine, lambda: execution.step("first", lambda _: 1))
        for number in range(30):
            execution.step(f"step {number}", lambda _: 1)
        late = cost(engine, lambda: execution.step("last", lambda _: 1))

    assert late == early


def pulled(shop, pages: int) -> Spent:  # noqa: F811 - the fixture's value
    shop.feed.serves(*[[{"id": page}] for page in range(pages)])
    engine = shop.store.engine()
    return cost(engine, lambda: shop.run(engine=engine, name=f"orders{pages}"))


def test_a_pull_costs_what_a_step_does_and_its_ledger(shop):  # noqa: F811
    few, many = pulled(shop, 2), pulled(shop, 7)

    assert (many.round_trips - few.round_trips) / 5 == 2
    assert (many.rows_written - few.rows_written) / 5 <= 3
    assert (many.rows_read - few.rows_read) / 5 <= 12


def test_a_run_that_lands_one_pull_is_bounded(shop):  # noqa: F811
    one = pulled(shop, 1)

    assert one.round_trips <= 30
    assert one.rows_written <= 40


@pytest.mark.clause("run.record.history-window")
def test_a_list_of_runs_reads_what_it_shows_however_many_there_are(store):
    engine = store.here
    _many_runs(engine, 2_000)

    listed: list[object] = []
    shown = cost(engine, lambda: listed.extend(engine.runs.since(0, ceiling=20)))
    of_one = cost(engine, lambda: engine.runs.since(0, ceiling=20, pipeline_id="p3"))

    assert len(listed) == 20
    assert (shown.round_trips, shown.rows_written) == (1, 0)
    assert shown.rows_read <= 20 * 5
    assert of_one.rows_read <= 20 * 5


def _many_runs(engine: Engine, count: int) -> None:
    text = """INSERT INTO runs (run_id, pipeline_id, status, started_at, record, appended)
      SELECT 'r-' || n.value, 'p' || (n.value % 10), 'success', n.value,
             json_object('run_id', 'r-' || n.value, 'status', 'success', 'started_at', n.value), 1
        FROM json_each(?1) AS n"""
    numbers = "[" + ",".join(map(str, range(count))) + "]"
    engine.profile.database.binding.batch([{"sql": text, "params": [numbers]}], intent="write")  # type: ignore[attr-defined]
