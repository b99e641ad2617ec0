"""Where a table stands in its source, and what moves that place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import CursorFieldMismatch, ExecutionSuperseded
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
    ],
    ids=["undeclared", "a watermark", "declared"],
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
def test_the_catalog_caches_what_the_newest_marker_says(shop: Shop) -> None:
    for number in (1, 2):
        shop.feed.serves(*(orders(page) for page in range(number)))
        shop.run()
        marker = shop.marker()
        cached = shop.store.here.profile.database.run(call("read_cursor", table_name="orders"))[0][0]

        assert cached[1] == marker.seq == number
        assert (marker.position, marker.rows) == (number, 1)
        assert str(marker.position) in map(str, cached)


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


@pytest.mark.clause("run.advance.inclusive-boundary")
def test_a_keyed_table_reads_the_boundary_once_however_often_it_is_polled(shop: Shop) -> None:
    shop.feed.serves([*orders(1, at=day(1)), *orders(2, 3, at=day(2))])

    landed = [shop.run(incremental="at", primary_key=("id",)).rows for _ in range(3)]

    assert landed == [3, 2, 2]
    assert shop.ids() == [1, 2, 3]


@pytest.mark.clause("run.advance.inclusive-boundary")
def test_a_keyless_table_accumulates_the_boundary(shop: Shop) -> None:
    shop.feed.serves([*orders(1, at=day(1)), *orders(2, at=day(2))])

    for _ in range(3):
        shop.run(incremental="at")

    assert shop.ids() == [1, 2, 2, 2]


@pytest.mark.clause("run.advance.inclusive-boundary")
def test_a_row_that_shares_the_boundary_and_appears_later_lands(shop: Shop) -> None:
    shop.feed.serves(orders(1, at=day(2)))
    shop.run(incremental="at", primary_key=("id",))
    shop.feed.serves(orders(1, 2, at=day(2)))

    shop.run(incremental="at", primary_key=("id",))

    assert shop.ids() == [1, 2]


@pytest.mark.clause("run.advance.watermark-shape")
def test_a_watermark_names_its_column_and_stands_at_a_value(shop: Shop) -> None:
    shop.feed.serves([*orders(1, at=day(3)), *orders(2, at=day(1))])

    shop.run(incremental="at")

    assert shop.marker().position == {"field": "at", "at": day(3)}


@pytest.mark.clause("run.advance.frontier")
@pytest.mark.parametrize("window", [[], orders(9, at=day(1))], ids=["empty", "older"])
def test_an_empty_or_an_older_window_takes_nothing_back(shop: Shop, window: list[Any]) -> None:
    shop.feed.serves(orders(1, at=day(5)))
    shop.run(incremental="at")
    shop.feed.serves(window)

    row = shop.run(incremental="at")

    assert (row.status, row.rows, row.not_admitted) == (RunStatus.SUCCESS, 0, len(window))
    assert shop.marker().position == {"field": "at", "at": day(5)}


@pytest.mark.clause("run.advance.frontier")
def test_the_frontier_is_the_highest_of_every_page_in_whatever_order(shop: Shop) -> None:
    shop.feed.serves(orders(1, at=day(9)), orders(2, at=day(3)), [], orders(3, at=day(7)))

    shop.run(incremental="at")

    assert shop.marker().position == {"field": "at", "at": day(9)}


@pytest.mark.clause("run.advance.frontier", "run.journal.replay-lands")
def test_a_replayed_page_counts_for_the_frontier_too(shop: Shop) -> None:
    shop.feed.serves(orders(1, at=day(9)), orders(2, at=day(3)))
    shop.feed.failures = {1: ValueError("second page")}
    assert shop.run(incremental="at").status is RunStatus.FAILED

    resumed = shop.run(incremental="at")

    assert (resumed.status, resumed.replayed) == (RunStatus.SUCCESS, 1)
    assert shop.marker().position == {"field": "at", "at": day(9)}


@pytest.mark.clause("run.advance.frontier", "run.record.columns")
def test_rows_below_the_position_are_counted_and_not_landed(shop: Shop) -> None:
    shop.feed.serves(orders(1, at=day(5)))
    shop.run(incremental="at")
    shop.feed.serves([*orders(2, 3, at=day(4)), *orders(4, at=day(6))], orders(5, at=day(1)))

    row = shop.run(incremental="at")

    assert (row.rows, row.not_admitted, row.batches) == (1, 3, 2)
    assert shop.ids() == [1, 4]


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


@pytest.mark.clause("run.advance.field-rename")
def test_a_renamed_watermark_is_refused_before_the_source_is_asked(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    shop.run(incremental="at")
    shop.feed.serves([{"id": 2, "changed": day(2)}])

    with pytest.raises(CursorFieldMismatch) as refusal:
        shop.run(incremental="changed")

    assert (refusal.value.stored, refusal.value.declared) == ("at", "changed")
    assert shop.feed.read == []
    assert shop.owner() is None
    assert shop.ids() == [1]


@pytest.mark.clause("run.advance.turning-incremental-on")
def test_turning_incremental_on_starts_from_none_and_lands_the_window_once_more(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2, at=day(2)))
    shop.run()
    assert shop.marker().position == 2
    shop.feed.serves(orders(1), orders(2, at=day(2)))

    row = shop.run(incremental="at")

    assert (row.error, row.rows, row.not_admitted) == (None, 2, 0)
    assert shop.feed.asks[-1].since is None
    assert shop.marker().position == {"field": "at", "at": day(2)}


@pytest.mark.clause("run.advance.turning-incremental-on")
def test_a_window_still_empty_after_turning_incremental_on_commits_nothing(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    shop.run()
    shop.feed.serves([])

    assert [shop.run(incremental="at").status for _ in range(2)] == [RunStatus.SUCCESS] * 2

    assert (shop.marker().seq, shop.marker().position) == (1, 1)


@pytest.mark.clause("run.advance.cursor-bytes", "run.advance.frontier")
def test_a_source_that_has_nothing_to_say_leaves_the_position_where_it_is(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    shop.run()
    shop.module.script = lambda _: iter([])

    row = shop.run()

    assert (row.status, row.rows) == (RunStatus.SUCCESS, 0)
    assert (shop.marker().position, shop.marker().seq) == (1, 1)


@pytest.mark.clause("run.advance.frontier", "run.journal.replay-lands")
def test_a_replayed_page_counts_the_rows_it_left_below_the_position(shop: Shop) -> None:
    shop.feed.serves(orders(1, at=day(5)))
    shop.run(incremental="at")
    shop.feed.serves([*orders(2, 3, at=day(4)), *orders(4, at=day(6))], orders(5, at=day(1)))
    shop.feed.failures = {1: ValueError("second page")}
    failed = shop.run(incremental="at")

    resumed = shop.run(incremental="at")

    assert (failed.not_admitted, resumed.replayed, resumed.not_admitted) == (2, 1, 3)
