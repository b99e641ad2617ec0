"""How far a watermark reaches: its boundary, the frontier of a walk, and what turning one on or renaming it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import CursorFieldMismatch
from engine.shapes import RunStatus
from tests.pipeline.conftest import day, orders

if TYPE_CHECKING:
    from tests.pipeline.conftest import Shop


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


@pytest.mark.clause("run.advance.watermark-shape", "run.advance.frontier")
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
    assert (shop.marker().position, shop.marker().seq) == ({"field": "at", "at": day(5)}, 1)


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


@pytest.mark.clause("run.advance.field-rename")
@pytest.mark.parametrize("renamed", ["changed", "At"])
def test_a_renamed_watermark_is_refused_before_the_source_is_asked(shop: Shop, renamed: str) -> None:
    shop.feed.serves(orders(1))
    shop.run(incremental="at")
    shop.feed.serves([{"id": 2, renamed: day(2)}])

    with pytest.raises(CursorFieldMismatch) as refusal:
        shop.run(incremental=renamed)

    assert (refusal.value.stored, refusal.value.declared) == ("at", renamed)
    assert str(refusal.value).endswith("contextful pipeline reset shop --table orders")
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


@pytest.mark.clause("run.advance.turning-incremental-on", "run.advance.frontier")
def test_a_window_still_empty_after_turning_incremental_on_commits_nothing(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    shop.run()
    shop.feed.serves([])

    assert [shop.run(incremental="at").status for _ in range(2)] == [RunStatus.SUCCESS] * 2

    assert (shop.marker().seq, shop.marker().position) == (1, 1)


@pytest.mark.clause("run.advance.frontier", "run.journal.replay-lands")
def test_a_replayed_page_counts_the_rows_it_left_below_the_position(shop: Shop) -> None:
    shop.feed.serves(orders(1, at=day(5)))
    shop.run(incremental="at")
    shop.feed.serves([*orders(2, 3, at=day(4)), *orders(4, at=day(6))], orders(5, at=day(1)))
    shop.feed.failures = {1: ValueError("second page")}
    failed = shop.run(incremental="at")

    resumed = shop.run(incremental="at")

    assert (failed.not_admitted, resumed.replayed, resumed.not_admitted) == (2, 1, 3)
