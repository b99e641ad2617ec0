"""Where a table stands in its source, and what moves that place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import ExecutionSuperseded
from engine.shapes import CursorKind, Pull, RunStatus
from engine.sql import call
from tests.pipeline.conftest import day, orders
from tests.stores import LEASE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.source import Ask
    from tests.pipeline.conftest import Shop


@pytest.mark.clause("run.advance.cursor-kind")
@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ({}, CursorKind.OPAQUE_TOKEN),
        ({"incremental": "at"}, CursorKind.MONOTONIC),
        ({"entry": "snapshots"}, CursorKind.SNAPSHOT_ID),
        ({"entry": "snapshots", "incremental": "at"}, CursorKind.MONOTONIC),
    ],
    ids=["undeclared", "a watermark", "declared", "a watermark over what is declared"],
)
def test_a_marker_carries_the_kind_of_its_cursor(shop: Shop, declared: dict[str, Any], kind: CursorKind) -> None:
    shop.feed.serves(orders(1))

    shop.run(**declared)

    assert shop.marker().cursor_kind == kind


@pytest.mark.clause("run.advance.cursor-bytes")
def test_a_position_is_handed_back_as_the_source_gave_it(shop: Shop) -> None:
    given = {"page": [1, {"token": "a/ü\u2028=="}], "big": 2**64, "none": None}
    asked: list[Any] = []

    def source(ask: Ask) -> Iterator[Pull]:
        asked.append(ask.position)
        yield Pull(rows=[{"id": len(asked)}], position=given)

    shop.module.script = source
    shop.run()
    shop.run()

    assert asked == [None, given]
    assert shop.marker().position == given


@pytest.mark.clause("run.advance.cursor-bytes")
def test_a_run_that_fails_moves_no_position(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    shop.run()
    shop.feed.serves(orders(1), orders(2), orders(3))
    shop.feed.failures = {2: ValueError("third page")}

    failed = shop.run()

    assert failed.status is RunStatus.FAILED
    assert (shop.marker().position, shop.marker().seq) == (1, 1)


@pytest.mark.clause("run.advance.commit-with-rows")
@pytest.mark.parametrize("entry", ["pulls", "snapshots"])
def test_the_catalog_caches_what_the_newest_marker_says(shop: Shop, entry: str) -> None:
    for number in (1, 2):
        shop.feed.serves(*(orders(page) for page in range(number)))
        shop.run(entry=entry)
        marker = shop.marker()
        cached = shop.store.here.profile.database.run(call("read_cursor", table_name="orders"))[0][0]

        assert cached[1] == marker.seq == number
        assert cached[3] == marker.cursor_kind
        assert (marker.position, marker.rows) == (number, 1)
        assert (cached[2], cached[4]) == (marker.by.commit_id, str(number))


@pytest.mark.clause("run.advance.concurrency-by-kind")
def test_an_overtaken_watermark_is_not_taken_back(shop: Shop) -> None:
    """A run that began earlier and saw less commits after one that saw more."""
    shop.feed.serves(orders(1, at=day(2)))

    def overtaken(ask: Ask) -> Iterator[Pull]:
        _another_run_commits(shop, at=day(9))
        yield Pull(rows=orders(1, at=day(2)))

    shop.module.script = overtaken
    late = shop.run(incremental="at", primary_key=("id",))

    assert late.status is RunStatus.FAILED
    assert late.error is not None
    assert late.error["name"] == ExecutionSuperseded.__name__
    assert shop.marker().position == {"field": "at", "at": day(9)}


def _another_run_commits(shop: Shop, *, at: str) -> None:
    """What another engine does once this one's lease has lapsed."""
    shop.store.here.keeper.stop()
    shop.store.clock.advance(LEASE + 1)
    engine = shop.store.engine()
    shop.module.script = lambda _: iter([Pull(rows=orders(7, at=at))])
    row = shop.run(engine=engine, incremental="at", primary_key=("id",))
    assert row.status is RunStatus.SUCCESS


@pytest.mark.clause("run.advance.walk-position")
def test_a_walk_goes_on_from_each_position_and_commits_the_frontier(shop: Shop) -> None:
    shop.feed.serves(orders(1, at=day(1)), orders(2, at=day(2)), orders(3, at=day(3)))

    shop.run(incremental="at")

    assert shop.feed.read == [0, 1, 2]
    assert shop.marker().position == {"field": "at", "at": day(3)}
    assert [ask.position for ask in shop.feed.asks] == [None], "a walk is not the watermark"


@pytest.mark.clause("run.advance.walk-position")
def test_each_walk_admits_from_the_floor_it_began_with(shop: Shop) -> None:
    """A later page of a walk may be older than an earlier one."""
    shop.feed.serves(orders(1, at=day(2)))
    shop.run(incremental="at")
    shop.feed.serves(orders(2, at=day(9)), orders(3, at=day(3)), orders(4, at=day(1)))

    shop.run(incremental="at")

    assert shop.ids() == [1, 2, 3]
    assert [ask.since for ask in shop.feed.asks] == [None, day(2)]


@pytest.mark.clause("run.advance.walk-position")
def test_a_pull_without_rows_that_asks_for_its_own_position_again_ends_the_run(shop: Shop) -> None:
    """The scenario: no rows, the position it asked and more; the run ends and commits its frontier."""

    def source(ask: Ask) -> Iterator[Pull]:
        if ask.position is None:
            yield Pull(rows=orders(1, at=day(4)), position="here", more=True)
        while True:
            yield Pull(rows=[], position="here", more=True)

    shop.module.script = source

    row = shop.run(incremental="at")

    assert (row.status, row.batches, row.rows) == (RunStatus.SUCCESS, 2, 1)
    assert shop.marker().position == {"field": "at", "at": day(4)}


@pytest.mark.clause("run.advance.walk-position")
@pytest.mark.parametrize("declared", [{}, {"incremental": "at"}], ids=["opaque", "monotonic"])
def test_a_page_whose_link_leads_back_is_an_error_and_no_endless_loop(shop: Shop, declared: dict[str, Any]) -> None:
    def source(ask: Ask) -> Iterator[Pull]:
        while True:
            yield Pull(rows=orders(1), position="here", more=True)

    shop.module.script = source

    row = shop.run(**declared)

    assert row.status is RunStatus.FAILED
    assert row.error is not None
    assert (row.error["name"], row.batches) == ("SourceLoop", 2)
    assert "pull 1" in row.error["message"]
    assert "'here'" in row.error["message"]


@pytest.mark.clause("run.advance.cursor-bytes", "run.advance.frontier")
def test_a_source_that_has_nothing_to_say_leaves_the_position_where_it_is(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    shop.run()
    shop.module.script = lambda _: iter([])

    row = shop.run()

    assert (row.status, row.rows) == (RunStatus.SUCCESS, 0)
    assert (shop.marker().position, shop.marker().seq) == (1, 1)
