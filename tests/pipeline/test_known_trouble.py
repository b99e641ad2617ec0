"""What sources are known to get wrong: zones, precision, nulls, types that flip, pages that lie or shrink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.shapes import Pull, RunStatus
from tests.pipeline.conftest import day, orders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.source import Ask
    from tests.pipeline.conftest import Shop


def at(*clocks: Any, first: int = 1) -> list[dict[str, Any]]:
    """Rows numbered from `first`, one a clock."""
    return [{"id": number, "at": clock} for number, clock in enumerate(clocks, start=first)]


@pytest.mark.clause("run.advance.frontier", "run.advance.unorderable-position")
def test_zones_may_be_mixed_and_the_latest_moment_is_the_position_however_it_sorts_as_text(shop: Shop) -> None:
    """Ten in Berlin is before half past nine in London, and its text sorts behind."""
    shop.feed.serves(at("2026-01-01T10:00:00+01:00", "2026-01-01T09:30:00Z"), at("2026-01-01T02:00:00-08:00", first=3))
    shop.run(incremental="at")
    assert shop.marker().position["at"] == "2026-01-01T02:00:00-08:00"

    shop.feed.serves(at("2026-01-01T10:59:59+01:00", "2026-01-01T11:00:00+01:00", "2026-01-01T10:00:00Z", first=4))
    row = shop.run(incremental="at")

    assert (row.rows, row.not_admitted) == (2, 1)
    assert shop.ids() == [1, 2, 3, 5, 6]


@pytest.mark.clause("run.advance.inclusive-boundary", "run.advance.frontier")
@pytest.mark.parametrize("position", ["2026-01-01T00:00:00.123Z", "2026-01-01T00:00:00.123000Z"])
def test_milliseconds_and_microseconds_of_one_instant_are_one_instant(shop: Shop, position: str) -> None:
    shop.feed.serves(at(position))
    shop.run(incremental="at")
    shop.feed.serves(
        at("2026-01-01T00:00:00.123000Z", "2026-01-01T00:00:00.123Z", "2026-01-01T00:00:00.122999Z", first=2)
    )

    row = shop.run(incremental="at")

    assert (row.rows, row.not_admitted) == (2, 1)
    assert shop.ids() == [1, 2, 3]
    assert shop.marker().position["at"] == position


@pytest.mark.clause("run.advance.frontier")
def test_a_finer_instant_moves_the_position_though_its_text_is_longer_and_sorts_before(shop: Shop) -> None:
    """`.` sorts before `Z`, so as text the later instant is the smaller one."""
    shop.feed.serves(at("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000001Z"))

    shop.run(incremental="at")

    assert shop.marker().position["at"] == "2026-01-01T00:00:00.000001Z"


@pytest.mark.clause("run.advance.unorderable-position")
@pytest.mark.parametrize("rows", [at(day(1), None), at(None, day(1)), [{"id": 1, "at": day(1)}, {"id": 2}], at("")])
def test_a_row_without_a_clock_fails_the_pull_by_name_and_nothing_lands_or_moves(shop: Shop, rows: Any) -> None:
    shop.feed.serves(at(day(1)))
    shop.run(incremental="at")
    shop.feed.serves(rows)

    failed = shop.run(incremental="at")

    assert failed.error is not None
    assert (failed.status, failed.error["tag"]) == (RunStatus.FAILED, "Permanent")
    assert "orders.at cannot be ordered" in failed.error["message"]
    assert (shop.marker().seq, shop.ids(), shop.owner()) == (1, [1], None)
    assert shop.feed.read == [0], "it is terminal for the pull: nothing is asked again"


@pytest.mark.clause("run.own.stage-schema")
@pytest.mark.parametrize("pages", [(1, 2.5), (2.5, 1)], ids=["int, then float", "float, then int"])
def test_a_column_may_flip_between_integers_and_floats_from_page_to_page(shop: Shop, pages: Any) -> None:
    shop.feed.serves(*([{"id": n, "price": price}] for n, price in enumerate(pages)))

    row = shop.run()

    assert row.status is RunStatus.SUCCESS
    assert [price for (price,) in shop.read("SELECT price FROM orders ORDER BY id")] == [float(p) for p in pages]


@pytest.mark.clause("run.advance.frontier", "run.advance.unorderable-position")
def test_a_clock_may_flip_between_integers_and_floats_since_both_are_numbers(shop: Shop) -> None:
    shop.feed.serves(at(1, 2), at(2.5, first=3))
    shop.run(incremental="at")
    shop.feed.serves(at(2, 3, first=4))

    row = shop.run(incremental="at")

    assert (row.error, row.rows, row.not_admitted) == (None, 1, 1)
    assert shop.marker().position == {"field": "at", "at": 3}


@pytest.mark.clause("run.advance.walk-position")
@pytest.mark.parametrize("incremental", [None, "at"])
def test_a_source_that_says_more_where_there_is_none_ends_in_an_error_or_at_its_frontier(
    shop: Shop, incremental: str | None
) -> None:
    def lying(ask: Ask) -> Iterator[Pull]:
        if ask.position is None:
            yield Pull(rows=orders(1, at=day(1)), position="end", more=True)
        while True:
            yield Pull(position="end", more=True)

    shop.module.script = lying

    row = shop.run(incremental=incremental)

    if incremental:
        assert (row.status, shop.ids(), shop.marker().position["at"]) == (RunStatus.SUCCESS, [1], day(1))
    else:
        assert row.error is not None
        assert (row.status, row.error["name"]) == (RunStatus.FAILED, "SourceLoop")


@pytest.mark.clause("run.advance.walk-position")
def test_a_source_that_returns_after_a_pull_is_asked_on_where_that_pull_said_there_is_more(shop: Shop) -> None:
    pages = [orders(1, at=day(2)), orders(2, at=day(1)), orders(3, at=day(3))]

    def one_at_a_time(ask: Ask) -> Iterator[Pull]:
        page = ask.position or 0
        yield Pull(rows=pages[page], position=page + 1, more=page < 2)

    shop.module.script = one_at_a_time

    row = shop.run(incremental="at")

    assert (row.batches, shop.ids(), shop.marker().position["at"]) == (3, [1, 2, 3], day(3))


@pytest.mark.clause("run.advance.inclusive-boundary", "run.advance.frontier")
def test_what_a_source_held_back_by_saying_there_is_no_more_lands_with_the_next_poll(shop: Shop) -> None:
    shop.module.script = lambda _: iter([Pull(rows=orders(1, at=day(1)), more=False)])
    shop.run(incremental="at", primary_key=("id",))
    shop.module.script = lambda _: iter([Pull(rows=orders(1, 2, at=day(1)) + orders(3, at=day(2)), more=False)])

    shop.run(incremental="at", primary_key=("id",))

    assert shop.ids() == [1, 2, 3]


@pytest.mark.clause("run.journal.replay-lands", "run.advance.inclusive-boundary")
def test_a_page_that_shrinks_between_two_reads_loses_nothing_for_good(shop: Shop) -> None:
    """A row of the first page goes away while the walk is down: every row behind it moves up by one."""
    rows = [row for n in range(1, 7) for row in orders(n, at=day(n))]

    def offsets(ask: Ask) -> Iterator[Pull]:
        start = ask.position or 0
        if start and len(rows) == 6:
            raise ValueError("the second page")
        page = rows[start : start + 2]
        yield Pull(rows=page, position=start + len(page), more=bool(page))

    shop.module.script = offsets
    declared: Any = {"incremental": "at", "primary_key": ("id",)}
    assert shop.run(**declared).status is RunStatus.FAILED
    del rows[0]

    resumed = shop.run(**declared)
    assert (resumed.status, resumed.replayed) == (RunStatus.SUCCESS, 1)
    late = shop.run(**declared, allowed_lateness_ms=10 * 86_400_000)

    assert late.status is RunStatus.SUCCESS
    assert shop.ids() == [1, 2, 3, 4, 5, 6]


@pytest.mark.clause("run.advance.inclusive-boundary")
@pytest.mark.parametrize(("key", "ids"), [(("id",), [1, 2, 3]), ((), [1, 1, 1, 2, 2, 3])], ids=["keyed", "keyless"])
def test_rows_that_share_the_watermarks_instant_land_however_late_they_come(
    shop: Shop, key: tuple[str, ...], ids: list[int]
) -> None:
    for known in ([1], [1, 2], [1, 2, 3]):
        shop.feed.serves(orders(*known, at=day(1)))
        assert shop.run(incremental="at", primary_key=key).not_admitted == 0

    assert shop.ids() == ids
    assert shop.marker().position == {"field": "at", "at": day(1)}


@pytest.mark.clause("run.advance.turning-incremental-on")
def test_turning_incremental_on_over_a_digest_starts_from_none(shop: Shop) -> None:
    shop.module.script = lambda _: iter([Pull(rows=orders(1, at=day(1)), position={"sha256": "0" * 64, "rows": 1})])
    shop.run()
    shop.feed.serves(orders(1, at=day(1)), orders(2, at=day(2)))
    shop.module.script = shop.feed

    row = shop.run(incremental="at")

    assert (row.error, row.rows, shop.feed.asks[-1].since) == (None, 2, None)
    assert shop.marker().position == {"field": "at", "at": day(2)}
