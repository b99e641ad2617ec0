"""What work costs at D1: round trips, statements, rows read and rows written, as the binding counts them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import pytest

from d1.binding import Spent
from engine.export import described
from tests.pipeline.conftest import api, shop  # noqa: F401 - the fixtures

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.host import Engine
    from tests.stores import Store


def spent(engine: Engine) -> Spent:
    return Spent(**asdict(engine.profile.database.binding.spent))  # type: ignore[attr-defined]


def cost(engine: Engine, work: Callable[[], object]) -> Spent:
    before = spent(engine)
    work()
    return between(before, spent(engine))


def between(before: Spent, after: Spent) -> Spent:
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


@pytest.mark.clause("run.journal.ledger-settles-first")
def test_a_pull_over_http_costs_no_round_trip_more(shop, api):  # noqa: F811
    """The intent of its requests goes with the claim, their settlement with the record."""

    def asked(pages: int) -> Spent:
        api.pages = [[{"id": page}] for page in range(pages)]
        engine = shop.store.engine()
        return cost(engine, lambda: shop.fire(api.table(f"orders{pages}"), engine=engine))

    few, many = asked(2), asked(7)

    assert (many.round_trips - few.round_trips) / 5 == 2
    assert (many.rows_written - few.rows_written) / 5 == 5


def test_a_run_that_lands_one_pull_is_bounded(shop):  # noqa: F811
    one = pulled(shop, 1)

    assert one.round_trips <= 30
    assert one.rows_written <= 40


def landed(shop, pages: int) -> list[Spent]:  # noqa: F811
    """What a run of so many pulls had spent when its last pull had landed, and when it was over."""
    shop.feed.serves(*[[{"id": page}] for page in range(pages)])
    engine = shop.store.engine()
    seen: list[Spent] = []
    shop.fire(shop.table(f"orders{pages}"), engine=engine, look=lambda *_: seen.append(spent(engine)))
    return [seen[-1], spent(engine)]


@pytest.mark.clause("run.own.one-commit-per-run", "run.advance.commit-with-rows")
def test_a_commit_costs_six_round_trips_whatever_it_lands(shop):  # noqa: F811
    few, many = (between(*landed(shop, pages)) for pages in (1, 12))

    print(f"a commit: {few}; of twelve pulls: {many}")
    assert few.round_trips == many.round_trips
    assert few.statements == many.statements
    assert few.round_trips <= 6
    assert few.statements <= 14
    assert few.rows_written <= 9
    assert few.rows_read <= 30
    # Each recorded pull goes with its owner: one row.
    assert many.rows_written - few.rows_written <= 11
    assert many.rows_read - few.rows_read <= 11 * 3


RUNS: Final = 100_000


@pytest.fixture
def long_used(store: Store) -> Store:
    """A store with a hundred thousand runs behind it."""
    _many_runs(store.here, RUNS)
    return store


@pytest.mark.clause("run.record.history-window", "run.record.describe-window")
def test_a_list_of_runs_reads_what_it_shows_however_many_there_are(long_used):
    engine, listed = long_used.here, []

    shown = cost(engine, lambda: listed.append(described(engine.runs, pipelines=(), since=None, limit=20)))
    of_one = cost(engine, lambda: listed.append(described(engine.runs, pipelines=["p3"], since=None, limit=20)))
    windowed = cost(engine, lambda: listed.append(described(engine.runs, pipelines=(), since="1970-01-01", limit=20)))

    print(f"20 of {RUNS} runs: {shown}; of one pipeline: {of_one}")
    assert [len(window.runs) for window in listed] == [20, 20, 20]
    assert all(window.truncated for window in listed)
    assert [run.run_id for run in listed[0].runs[:2]] == [f"r-{RUNS - 1}", f"r-{RUNS - 2}"]
    assert listed[1].runs[0].run_id == f"r-{RUNS - 7}"
    for each in (shown, of_one, windowed):
        assert (each.round_trips, each.statements, each.rows_written) == (1, 1, 0)
        assert each.rows_read <= 21 * 5


@pytest.mark.clause("run.record.orphan-reap")
def test_an_engine_opens_and_works_at_the_same_cost_however_many_runs_there_are(store):
    def worked(scope: str) -> tuple[Spent, Spent]:
        with store.engine() as engine:
            opened = spent(engine)
            with engine.open(scope, plan="p") as execution:
                execution.step("one", lambda _: 1)
            return opened, spent(engine)

    worked("before")
    early = worked("early")
    _many_runs(store.here, RUNS)
    late = worked("late")

    print(f"an engine opens beside {RUNS} runs: {late[0]}; and takes a step in a scope: {late[1]}")
    assert late == early


def _many_runs(engine: Engine, count: int) -> None:
    text = """WITH RECURSIVE n(value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM n WHERE value < ?1 - 1)
      INSERT INTO runs (run_id, pipeline_id, status, started_at, record, appended)
      SELECT 'r-' || n.value, 'p' || (n.value % 10), 'success', n.value,
             json_object('run_id', 'r-' || n.value, 'status', 'success', 'started_at', n.value), 1
        FROM n"""
    engine.profile.database.binding.batch([{"sql": text, "params": [count]}], intent="write")  # type: ignore[attr-defined]
