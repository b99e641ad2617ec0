"""A watermark needs an order: what has none ends the pull, before anything of it is recorded."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from engine.shapes import Pull, RunStatus
from tests.pipeline.conftest import day, orders

if TYPE_CHECKING:
    from engine.runs import RunRow
    from tests.pipeline.conftest import Shop

GOOD = {"id": 0, "at": day(1)}

UNORDERABLE: dict[str, tuple[list[dict[str, Any]], str]] = {
    "null": ([GOOD, {"id": 1, "at": None}], "row 2"),
    "missing": ([GOOD, {"id": 1}], "row 2"),
    "missing everywhere": ([{"id": 1}], "no value in any row"),
    "null everywhere": ([{"id": 1, "at": None}], "no value in any row"),
    "a truth value": ([{"id": 1, "at": True}], "True"),
    "a nested value": ([{"id": 1, "at": {"day": 1}}], '{"day":1}'),
    "a list": ([{"id": 1, "at": [1, 2]}], "[1,2]"),
    "no number": ([{"id": 1, "at": 1.5}, {"id": 2, "at": math.nan}], "nan"),
    "no end": ([{"id": 1, "at": math.inf}], "inf"),
    "empty text": ([GOOD, {"id": 1, "at": ""}], "row 2"),
    "empty text beside plain text": ([{"id": 0, "at": "a"}, {"id": 1, "at": ""}], "row 2"),
    "numbers and text": ([{"id": 1, "at": 7}, {"id": 2, "at": "seven"}], "row 2"),
    "an instant with a zone and one without": ([GOOD, {"id": 1, "at": "2026-01-02T00:00:00"}], "row 2"),
    "an instant and other text": ([GOOD, {"id": 1, "at": "yesterday"}], "row 2"),
    "a day that no calendar has": ([GOOD, {"id": 1, "at": "2026-02-30T00:00:00Z"}], "row 2"),
}


@pytest.mark.clause("run.advance.unorderable-position")
@pytest.mark.parametrize("what", UNORDERABLE)
def test_a_clock_without_an_order_ends_the_pull(shop: Shop, what: str) -> None:
    rows, told = UNORDERABLE[what]
    shop.feed.serves(rows)

    row = shop.run(incremental="at")

    assert _refused(row)["tag"] == "Permanent"
    assert told in _refused(row)["message"]
    assert "orders.at" in _refused(row)["message"]
    assert shop.feed.read == [0], "it is not tried again"
    assert shop.owner() is None


@pytest.mark.clause("run.advance.unorderable-position")
def test_an_instant_past_every_calendar_is_told_as_what_it_is(shop: Shop) -> None:
    far = pa.table({"id": [1], "at": pa.array([2**53], pa.timestamp("ms"))})
    shop.module.script = lambda _: iter([Pull(rows=far)])

    row = shop.run(incremental="at")

    assert "orders.at cannot be ordered: an instant before the year 1 or after 9999" in _refused(row)["message"]


@pytest.mark.clause("run.advance.unorderable-position")
@pytest.mark.parametrize(
    ("first", "second"), [(7, "seven"), ("seven", 7), (day(1), "yesterday"), (1.5, day(1))], ids=str
)
def test_a_walk_that_switches_kinds_is_stopped_and_resumes_once_its_source_is_mended(
    shop: Shop, first: Any, second: Any
) -> None:
    shop.feed.serves([{"id": 1, "at": first}], [{"id": 2, "at": second}])
    stopped = shop.run(incremental="at")
    shop.feed.serves([{"id": 1, "at": first}], [{"id": 2, "at": first}])

    resumed = shop.run(incremental="at")

    assert "orders, pull 1" in _refused(stopped)["message"]
    assert (resumed.status, resumed.replayed, shop.feed.read) == (RunStatus.SUCCESS, 1, [1])


@pytest.mark.clause("run.advance.unorderable-position")
def test_a_clock_of_another_kind_than_the_position_is_refused(shop: Shop) -> None:
    shop.feed.serves([{"id": 1, "at": 7}])
    shop.run(incremental="at")
    shop.feed.serves([{"id": 2, "at": day(1)}])

    row = shop.run(incremental="at")

    assert "beside the position 7" in _refused(row)["message"]
    assert shop.marker().position == {"field": "at", "at": 7}


@pytest.mark.clause("run.advance.frontier", "run.advance.watermark-shape")
@pytest.mark.parametrize(
    ("clocks", "highest"),
    [
        (["2026-01-01T01:30:00+02:00", "2026-01-01T00:00:00Z"], "2026-01-01T00:00:00Z"),
        (["2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.25Z"], "2026-01-01T00:00:00.5Z"),
        (["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"], "2026-10-25T02:30:00+01:00"),
        (["0999", "1000"], "1000"),
        ([2**53 + 1, 2**53], 2**53 + 1),
        ([2**64, 5], 2**64),
        ([1.5, 2], 2),
        ([date(2026, 1, 2), date(2026, 1, 1)], "2026-01-02"),
        ([datetime(2026, 1, 2, tzinfo=timezone.utc)], "2026-01-02T00:00:00.000000Z"),  # noqa: UP017 - as users write it
    ],
    ids=["offsets", "fractions", "clocks set back", "text", "past 2^53", "past 2^64", "mixed numbers",
         "dates", "moments"],
)  # fmt: skip
def test_clocks_order_as_what_they_are(shop: Shop, clocks: list[Any], highest: Any) -> None:
    shop.module.script = lambda _: iter([Pull(rows=[{"id": n, "at": at} for n, at in enumerate(clocks)])])

    first, again = shop.run(incremental="at"), shop.run(incremental="at")

    assert (first.error, again.error) == (None, None)
    assert shop.marker().position == {"field": "at", "at": highest}
    assert again.rows == 1


@pytest.mark.clause("run.advance.frontier", "run.advance.inclusive-boundary")
@pytest.mark.parametrize(
    ("pages", "stands_at"),
    [([["9.5"], ["10.1", "2.75"]], 10.1), ([["1.1"]], 1.1), ([["0.1234567890123456785"]], 0.12345678901234567)],
    ids=["across pages", "a float's own digits", "more digits than a float's"],
)
def test_decimals_order_as_numbers_and_their_boundary_lands_again(
    shop: Shop, pages: list[list[str]], stands_at: float
) -> None:
    shop.feed.serves(*[[{"id": text, "at": Decimal(text)} for text in page] for page in pages])
    declared: Any = {"incremental": "at", "types": {"at": "decimal(38,19)"}}

    first, again = shop.run(**declared), shop.run(**declared)

    assert (first.error, again.error) == (None, None)
    assert shop.marker().position == {"field": "at", "at": stands_at}
    assert again.rows == 1


def test_a_naive_moment_is_refused_and_never_given_a_zone(shop: Shop) -> None:
    shop.feed.serves(orders(1), [{"id": 2, "at": "2026-01-01 00:00:00"}])

    row = shop.run(incremental="at")

    assert "'2026-01-01 00:00:00' after '2026-01-01T00:00:00Z'" in _refused(row)["message"]


def _refused(row: RunRow) -> dict[str, str]:
    assert row.status is RunStatus.FAILED
    assert row.error is not None
    assert "CursorPositionUnorderable" in row.error["name"] or row.error["name"] == "StepFailed"
    assert "cannot be ordered" in row.error["message"]
    return row.error
