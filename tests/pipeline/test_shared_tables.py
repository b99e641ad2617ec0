"""Several writers, one store: engines that take turns, pipelines side by side, an attempt that lost its table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.corpus.marker import history
from engine.errors import StorageUnusable
from engine.shapes import Pull, RunStatus
from tests.pipeline.conftest import day, orders
from tests.stores import LEASE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.source import Ask
    from tests.pipeline.conftest import Shop


@pytest.mark.clause("run.advance.concurrency-by-kind")
def test_a_watermark_that_another_machine_took_further_is_not_taken_back(shop: Shop) -> None:
    """A machine with a state of its own commits into the same corpus while this run is under way."""

    def source(_: Ask) -> Iterator[Pull]:
        _elsewhere(shop, orders(7, at=day(9)), incremental="at")
        yield Pull(rows=orders(1, at=day(2)))

    shop.module.script = source

    row = shop.run(incremental="at")

    assert row.status is RunStatus.SUCCESS
    assert (shop.ids(), shop.marker().seq) == ([1, 7], 2)
    assert shop.marker().position == {"field": "at", "at": day(9)}


def _elsewhere(shop: Shop, rows: list[Any], **declared: Any) -> None:
    store = replace(shop.store, opened=[], root=shop.store.root / "elsewhere").initialized()
    engine = store.engine()
    engine.profile = replace(engine.profile, objects=shop.store.here.profile.objects)
    shop.module.script = lambda _: iter([Pull(rows=rows)])
    assert shop.run(engine=engine, **declared).status is RunStatus.SUCCESS
    store.close()


@pytest.mark.clause("run.advance.concurrency-by-kind", "run.own.one-commit-per-run")
@pytest.mark.parametrize("declared", [{}, {"incremental": "at"}], ids=["opaque", "monotonic"])
def test_an_attempt_that_lost_its_table_moves_no_position_and_lands_nothing(
    shop: Shop, declared: dict[str, Any]
) -> None:
    def source(_: Ask) -> Iterator[Pull]:
        _taken_over(shop, declared)
        yield Pull(rows=orders(1, at=day(2)), position="stale")

    shop.module.script = source

    row = shop.run(run_id="late", **declared)

    assert row.status is RunStatus.FAILED
    assert row.error is not None
    assert row.error["name"] == "ExecutionSuperseded"
    assert (shop.ids(), shop.marker().seq) == ([7], 1)
    assert shop.marker().position == ({"field": "at", "at": day(9)} if declared else "taken")
    assert shop.owner() is None


def _taken_over(shop: Shop, declared: dict[str, Any]) -> None:
    """The lease of the run under way lapses, and another engine runs the table."""
    shop.store.here.keeper.stop()
    shop.store.clock.advance(LEASE + 1)
    shop.module.script = lambda _: iter([Pull(rows=orders(7, at=day(9)), position="taken")])
    row = shop.run(engine=shop.store.engine(), **declared)
    assert row.status is RunStatus.SUCCESS


@pytest.mark.clause("run.advance.cursor-bytes", "run.advance.commit-with-rows")
def test_engines_that_take_turns_each_go_on_where_the_other_stopped(shop: Shop) -> None:
    engines = [shop.store.engine(), shop.store.engine()]

    for number in range(4):
        shop.feed.serves(*(orders(page) for page in range(number + 1)))
        assert shop.run(engine=engines[number % 2]).status is RunStatus.SUCCESS
        assert shop.feed.read == [number]

    assert shop.ids() == [0, 1, 2, 3]


@pytest.mark.clause("run.own.scope-independence", "run.advance.cursor-bytes")
def test_two_tables_at_once_keep_their_own_rows_and_positions(shop: Shop) -> None:
    """Two engines on one catalog, neither refused nor locked out, three runs each."""

    def source(_: Ask) -> Iterator[Pull]:
        for page in range(3):
            yield Pull(rows=[{"id": page}], position=page + 1, more=page < 2)

    shop.module.script = source
    shop.module.feeds["other"] = source
    tables = [shop.table("orders", primary_key=("id",)), shop.table("customers", entry="other", primary_key=("id",))]
    engines = [shop.store.engine(), shop.store.engine()]

    def three(number: int) -> list[RunStatus]:
        outcomes = [shop.fire(tables[number], engine=engines[number]) for _ in range(3)]
        return [run.status for outcome in outcomes for run in outcome.runs]

    with ThreadPoolExecutor(2) as pool:
        statuses = list(pool.map(three, range(2)))

    assert statuses == [[RunStatus.SUCCESS] * 3] * 2
    for table in ("orders", "customers"):
        assert [marker.position for marker in history(shop.store.here.profile.objects, table)] == [3, 3, 3]
        assert shop.read(f"SELECT id FROM {table} ORDER BY id") == [(0,), (1,), (2,)]


@pytest.mark.clause("run.advance.inclusive-boundary", "run.own.one-commit-per-run")
def test_an_instant_that_two_pages_share_lands_whole_though_the_run_failed_between_them(shop: Shop) -> None:
    shop.feed.serves(orders(1, at=day(1)), orders(2, 3, at=day(5)), orders(4, 5, at=day(5)))
    shop.feed.failures = {2: ValueError("third page")}
    shop.run(incremental="at")
    assert list(history(shop.store.here.profile.objects, "orders")) == []

    shop.run(incremental="at")

    assert shop.ids() == [1, 2, 3, 4, 5]
    assert shop.marker().position == {"field": "at", "at": day(5)}


@pytest.mark.clause("run.own.stage-discard", "run.advance.commit-with-rows")
def test_a_commit_that_fails_before_its_marker_leaves_no_part_and_is_done_by_the_next_run(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.feed.serves(orders(1), orders(2))
    objects = shop.store.here.profile.objects
    create = type(objects).create

    def full(self: Any, name: str, content: bytes) -> bool:
        if name.startswith("orders/commits/"):
            raise StorageUnusable(place=name, reason="no space left")
        return create(self, name, content)

    with monkeypatch.context() as patch:
        patch.setattr(type(objects), "create", full)
        failed = shop.run()
    left = list(objects.list("orders/"))

    row = shop.run()

    assert failed.error is not None
    assert (failed.error["tag"], failed.rows) == ("Storage", 0)
    assert (left, shop.staged()) == ([], [])
    assert (row.status, row.replayed, shop.ids()) == (RunStatus.SUCCESS, 2, [1, 2])
    assert shop.feed.read == [0, 1]


@pytest.mark.clause("run.own.source-stage-schema", "run.own.pin-release")
def test_a_schema_that_another_machine_moved_meanwhile_is_refused_and_leaves_no_part(shop: Shop) -> None:
    def source(_: Ask) -> Iterator[Pull]:
        _elsewhere(shop, [{"id": "seven"}])
        yield Pull(rows=[{"id": 1}])

    shop.module.script = source

    row = shop.run()

    assert row.error is not None
    assert row.error["name"] == "StoreSchemaIncompatible"
    assert [marker.rows for marker in history(shop.store.here.profile.objects, "orders")] == [1]
    assert [name for name in shop.store.here.profile.objects.list("orders/parts/") if row.run_id in name] == []


def test_readers_see_the_old_state_whole_until_the_marker_stands(shop: Shop) -> None:
    seen: list[list[Any]] = []
    shop.feed.serves(orders(1))
    shop.run()
    shop.feed.serves(orders(1), orders(2), orders(3))

    shop.fire(shop.table(), look=lambda *_: seen.append(shop.ids()))

    assert seen == [[1], [1]]
    assert shop.ids() == [1, 2, 3]
