"""Rows that arrive late: a poll re-reads a window below its position, and the position never goes back."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import lateness
from engine.cursors import rank
from engine.errors import LatenessUnmeasurable
from engine.shapes import RunStatus
from tests.pipeline.conftest import day, orders

if TYPE_CHECKING:
    from tests.pipeline.conftest import Shop

HOUR = 3_600_000
DAY = 24 * HOUR
LATE: Any = {"incremental": "at", "allowed_lateness_ms": DAY}


def before(at: Any, window_ms: int) -> Any:
    return lateness.floor(at, window_ms=window_ms, table="orders", field="at")


@pytest.mark.clause("run.advance.allowed-lateness")
def test_a_row_that_arrives_within_the_window_still_lands_and_one_below_it_does_not(shop: Shop) -> None:
    shop.feed.serves(orders(1, at=day(10)))
    shop.run(**LATE)
    shop.feed.serves(orders(2, at=day(9)), orders(3, at="2026-01-08T23:59:59Z"))

    row = shop.run(**LATE)

    assert (row.rows, row.not_admitted) == (1, 1)
    assert shop.ids() == [1, 2]
    assert shop.feed.asks[-1].since == day(9), "the source is asked for the window too"


@pytest.mark.clause("run.advance.allowed-lateness", "run.advance.frontier")
@pytest.mark.parametrize("rows", [[], orders(2, at=day(9))], ids=["nothing", "only late rows"])
def test_the_position_does_not_go_back_by_the_window(shop: Shop, rows: list[Any]) -> None:
    shop.feed.serves(orders(1, at=day(10)))
    shop.run(**LATE)
    shop.feed.serves(rows)

    shop.run(**LATE)
    shop.run(**LATE)

    assert shop.marker().position == {"field": "at", "at": day(10)}
    assert rows or shop.marker().seq == 1, "nothing moved, so nothing is committed"


@pytest.mark.clause("run.advance.allowed-lateness")
def test_without_a_window_late_rows_stay_out(shop: Shop) -> None:
    shop.feed.serves(orders(1, at=day(10)))
    shop.run(incremental="at")
    shop.feed.serves(orders(2, at="2026-01-09T23:59:59.999Z"))

    row = shop.run(incremental="at")

    assert (row.rows, row.not_admitted, shop.ids()) == (0, 1, [1])


@pytest.mark.clause("run.advance.allowed-lateness", "run.advance.inclusive-boundary")
def test_what_is_read_again_is_one_row_with_a_key_and_accumulates_without(shop: Shop) -> None:
    for key, ids in ((("id",), [1, 2]), ((), [1, 1, 2])):
        name = "keyed" if key else "keyless"
        for rows in (orders(1, at=day(10)), orders(1, at=day(10)) + orders(2, at=day(9))):
            shop.feed.serves(rows)
            shop.fire(shop.table(name, primary_key=key, **LATE))

        assert [row[0] for row in shop.read(f"SELECT id FROM {name} ORDER BY id")] == ids


@pytest.mark.clause("run.advance.allowed-lateness")
def test_a_resumed_run_replays_within_the_window_it_began_with(shop: Shop) -> None:
    shop.feed.serves(orders(1, at=day(10)))
    shop.run(**LATE)
    shop.feed.serves(orders(2, at=day(9)), orders(3, at=day(11)))
    shop.feed.failures = {1: ValueError("second page")}
    shop.run(**LATE)

    row = shop.run(**LATE)

    assert (row.status, row.replayed, shop.ids()) == (RunStatus.SUCCESS, 1, [1, 2, 3])
    assert shop.marker().position == {"field": "at", "at": day(11)}


@pytest.mark.clause("run.advance.allowed-lateness")
@pytest.mark.parametrize("value", [7, 7.5, "seven"])
def test_a_clock_that_is_no_moment_is_refused_before_anything_of_it_is_recorded(shop: Shop, value: Any) -> None:
    shop.feed.serves([{"id": 1, "at": value}])

    row = shop.run(**LATE)

    assert row.error is not None
    assert (row.status, row.error["tag"]) == (RunStatus.FAILED, "Config")
    assert "no moment that allowed_lateness" in row.error["message"]
    assert shop.owner() is None


@pytest.mark.clause("run.advance.allowed-lateness")
def test_a_window_on_a_table_that_stands_at_a_number_is_refused_before_the_source_is_asked(shop: Shop) -> None:
    shop.feed.serves([{"id": 1, "at": 7}])
    shop.run(incremental="at")
    shop.feed.serves([{"id": 2, "at": 8}])

    with pytest.raises(LatenessUnmeasurable):
        shop.run(**LATE)

    assert shop.feed.read == []


@pytest.mark.clause("run.advance.allowed-lateness")
@pytest.mark.parametrize("at", [date(2026, 1, 10), datetime(2026, 1, 10, tzinfo=UTC)])
def test_typed_dates_and_instants_have_a_window_too(shop: Shop, at: Any) -> None:
    shop.feed.serves([{"id": 1, "at": at}])
    shop.run(**LATE)
    shop.feed.serves([{"id": 2, "at": at - timedelta(days=1)}, {"id": 3, "at": at - timedelta(days=2)}])

    row = shop.run(**LATE)

    assert (row.error, row.rows, row.not_admitted, shop.ids()) == (None, 1, 1, [1, 2])


@pytest.mark.clause("run.advance.allowed-lateness")
@pytest.mark.parametrize(
    ("at", "window_ms", "floor"),
    [
        ("2026-01-10T00:00:00Z", 300_000, "2026-01-09T23:55:00Z"),
        ("2026-01-10T00:00:00.123456Z", 300_000, "2026-01-09T23:55:00.123456Z"),
        ("2026-01-10T00:00:00.123456789123Z", 1, "2026-01-10T00:00:00.122456789123Z"),
        ("2026-01-10T00:00:00Z", 1, "2026-01-09T23:59:59.999Z"),
        ("2026-01-10T00:00:00.5+02:00", 1_000, "2026-01-09T23:59:59.5+02:00"),
        ("2026-01-10 00:00:00", 1_000, "2026-01-09 23:59:59"),
        ("2026-01-10", 300_000, "2026-01-09"),
        ("2026-01-10", DAY, "2026-01-09"),
        ("2026-01-10", DAY + 1, "2026-01-08"),
        ("0001-01-01T00:00:01Z", DAY, "0001-01-01T00:00:00Z"),
        ("2026-01-10", 0, "2026-01-10"),
        (7, 0, 7),
        (None, DAY, None),
    ],
)
def test_the_floor_keeps_the_spelling_of_the_position(at: Any, window_ms: int, floor: Any) -> None:
    assert before(at, window_ms) == floor


@pytest.mark.clause("run.advance.allowed-lateness")
@given(
    at=st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2100, 1, 1)),
    window_ms=st.integers(1, 400 * DAY),
    zone=st.sampled_from(["Z", "+05:30", "-11:00"]),
    digits=st.integers(0, 9),
)
def test_the_floor_of_an_instant_is_exactly_the_window_before_it(
    at: datetime, window_ms: int, zone: str, digits: int
) -> None:
    fraction = f".{'1234567890'[:digits]}" if digits else ""
    spelled = f"{at.isoformat(timespec='seconds')}{fraction}{zone}"

    floor = before(spelled, window_ms)

    later, earlier = rank(spelled), rank(floor)
    assert later is not None
    assert earlier is not None
    ticks = [int(seconds) * 10**9 + int(digits.ljust(9, "0")) for _, (seconds, digits) in (later, earlier)]
    assert ticks[0] - ticks[1] == window_ms * 10**6


@pytest.mark.parametrize("at", ["2026-13-01", "2026-01-10T25:00:00Z", "2026", "", "2026-01-10T00:00Z", True, 1.5])
def test_what_is_no_moment_has_no_floor(at: Any) -> None:
    with pytest.raises(LatenessUnmeasurable):
        before(at, 1)
