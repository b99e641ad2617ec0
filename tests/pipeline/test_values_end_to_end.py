"""Values from a source's answer to a reader's row: what they are, what they become, what is refused."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from engine.shapes import Pull, RunStatus
from tests.pipeline.conftest import orders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.source import Ask
    from engine.runs import RunRow
    from tests.pipeline.conftest import Api, Shop

BIG = 2**53 + 1
EXACT = "12345678901234.5678"


def told(row: RunRow) -> str:
    assert row.status is RunStatus.FAILED
    assert row.error is not None
    return row.error["message"]


@pytest.mark.parametrize(
    ("values", "read"),
    [
        ([BIG, -BIG], [BIG, -BIG]),
        ([2**63, 1], [Decimal(2**63), Decimal(1)]),
        ([2**64, None], [Decimal(2**64), None]),
        ([1, 2.5], [1.0, 2.5]),
        ([True, None], [True, None]),
        (["ü 漢字 🎉 \u2028", ""], ["ü 漢字 🎉 \u2028", ""]),
        ([{"a": {"b": [1, None]}}, None], ['{"a":{"b":[1,null]}}', None]),
        ([[1, "x"], {}], ['[1,"x"]', "{}"]),
        (["2026-01-31", "12:00"], ["2026-01-31", "12:00"]),
    ],
    ids=["past 2^53", "past 2^63", "past 2^64", "int and float", "truth", "unicode", "nested", "mixed lists", "text"],
)
def test_values_of_an_api_are_read_as_they_were_sent(shop: Shop, api: Api, values: list[Any], read: list[Any]) -> None:
    api.pages = [[{"id": n, "value": value} for n, value in enumerate(values)]]

    (row,) = shop.fire(api.table()).runs

    assert row.error is None
    assert [value for (value,) in shop.read("SELECT value FROM orders ORDER BY id")] == read


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("decimal(18,4)", EXACT, Decimal(EXACT)),
        ("decimal(18,4)", 5, Decimal("5.0000")),
        ("date", "2026-01-31", date(2026, 1, 31)),
        ("timestamp", "2026-01-31T02:00:00+02:00", datetime(2026, 1, 31, tzinfo=timezone.utc)),  # noqa: UP017
        ("string", 2**70, str(2**70)),
        ("json", {"b": 1, "a": 2}, '{"a":2,"b":1}'),
    ],
    ids=["decimal", "decimal of an integer", "date", "timestamp", "string", "json"],
)
def test_a_declared_type_is_what_is_read(shop: Shop, kind: str, value: Any, read: Any) -> None:
    shop.feed.serves([{"id": 1, "value": value}, {"id": 2}])

    row = shop.run(types={"value": kind})

    assert row.error is None
    assert shop.read("SELECT value FROM orders ORDER BY id") == [(read,), (None,)]


def test_a_decimal_of_an_api_keeps_every_digit_it_was_sent_with(shop: Shop, api: Api) -> None:
    from engine.pipeline.declaration import Column  # noqa: PLC0415 - the one table here with a declared column

    api.pages = [[{"id": 1, "price": "12345678901234.5678"}]]

    shop.fire(api.table(columns={"price": Column(type="decimal(18,4)")}))

    assert shop.read("SELECT price FROM orders") == [(Decimal(EXACT),)]


def test_missing_and_null_read_alike_and_a_column_null_throughout_waits_for_a_value(shop: Shop) -> None:
    shop.feed.serves([{"id": 1, "note": None, "never": None}, {"id": 2}], [{"id": 3, "note": "x"}])

    shop.run()

    assert shop.read("SELECT id, note FROM orders ORDER BY id") == [(1, None), (2, None), (3, "x")]
    assert "never" not in shop.marker().schema.names
    shop.feed.serves([], [], [{"id": 4, "never": 5}])
    shop.run()
    assert shop.read("SELECT never FROM orders WHERE id >= 3 ORDER BY id") == [(None,), (5,)]


def test_a_column_that_turns_from_integers_to_floats_between_pages_widens(shop: Shop) -> None:
    shop.feed.serves([{"id": 1, "size": 7}], [{"id": 2, "size": 7.5}], [{"id": 3, "size": None}])

    row = shop.run()

    assert row.error is None
    assert shop.read("SELECT size FROM orders ORDER BY id") == [(7.0,), (7.5,), (None,)]


def test_a_column_that_widens_in_a_later_run_reads_alike_over_both(shop: Shop) -> None:
    shop.feed.serves([{"id": 1, "size": 7}])
    shop.run()
    shop.feed.serves([{"id": 1, "size": 7}], [{"id": 2, "size": 7.5}])

    shop.run()

    assert shop.read("SELECT size FROM orders ORDER BY id") == [(7.0,), (7.5,)]


def test_an_integer_no_float_holds_is_not_widened(shop: Shop) -> None:
    shop.feed.serves([{"id": 1, "size": BIG}], [{"id": 2, "size": 7.5}])

    assert f"orders.size is int64 up to {BIG} and cannot take float64" in told(shop.run())


def test_a_type_clash_counts_the_pulls_as_the_journal_does_and_names_the_row_of_the_value(shop: Shop) -> None:
    shop.feed.serves([{"id": 1, "size": 7}], [], [{"id": 2}, {"id": 3, "size": "large"}])

    assert "(orders, pull 2, row 2)" in told(shop.run())


def test_a_type_clash_behind_a_commit_names_the_pull_and_the_integer_that_is_too_large(shop: Shop) -> None:
    shop.feed.serves([{"id": 1, "size": 7.5}])
    shop.run()
    shop.feed.serves([{"id": 1, "size": 7.5}], [{"id": 2}], [{"id": 3, "size": 7}, {"id": 4, "size": BIG}])

    assert "(orders, pull 1, row 2)" in told(shop.run())


@pytest.mark.clause("run.own.source-stage-schema")
def test_a_column_that_turns_into_text_between_pages_is_refused_naming_column_types_and_page(shop: Shop) -> None:
    shop.feed.serves([{"id": 1, "size": 7}], [{"id": 2, "size": "large"}])

    said = told(shop.run(run_id="r"))

    assert "orders.size is int64 and cannot take string" in said
    assert "(orders, pull 1, row 1)" in said
    assert "columns.size.type" in said


def test_a_column_that_turns_into_text_inside_a_page_is_refused_naming_page_and_row(shop: Shop) -> None:
    shop.feed.serves([{"id": 1}], [{"id": 2, "size": 7}, {"id": 3, "size": 8}, {"id": 4, "size": "large"}])

    said = told(shop.run())

    assert "orders, pull 1, row 3" in said
    assert "'large'" in said


def test_empty_pages_in_the_middle_stop_nothing(shop: Shop, api: Api) -> None:
    api.pages = [orders(1), [], [], orders(2), []]

    (row,) = shop.fire(api.table()).runs

    assert (row.status, row.batches, shop.ids()) == (RunStatus.SUCCESS, 5, [1, 2])


@pytest.mark.parametrize("pages", [[[{"id": 1, "ID": 2}]], [[{"id": 1}], [{"Id": 2}]]], ids=["one page", "two pages"])
def test_names_that_differ_by_case_alone_are_refused(shop: Shop, pages: list[Any]) -> None:
    shop.feed.serves(*pages)

    row = shop.run()

    assert row.error is not None
    assert row.error["tag"] == "SchemaIncompatible"
    assert "'I" in told(row)
    assert "orders" in told(row)


@pytest.mark.parametrize("name", ["_run_id", "_INGESTED_AT"])
def test_a_column_of_an_injected_name_is_refused(shop: Shop, name: str) -> None:
    shop.feed.serves([{"id": 1, name: "mine"}])

    assert repr(name) in told(shop.run())


@pytest.mark.clause("run.journal.replay-lands", "run.own.one-commit-per-run")
def test_a_source_that_raises_after_two_pages_is_asked_for_the_third_alone(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2), orders(3))
    shop.feed.failures = {2: ValueError("third page")}
    failed = shop.run()
    assert "third page" in told(failed)
    shop.feed.read.clear()

    resumed = shop.run()

    assert (resumed.replayed, shop.feed.read, shop.ids()) == (2, [2], [1, 2, 3])


def test_rows_of_each_page_keep_their_order_and_number(shop: Shop) -> None:
    shop.feed.serves(orders(3, 1), orders(2))

    shop.run()

    assert shop.read("SELECT id, _row_seq FROM orders ORDER BY _row_seq") == [(3, 0), (1, 1), (2, 2)]


def test_what_is_no_pull_or_no_row_is_told_with_its_place(shop: Shop) -> None:
    def rows(_: Ask) -> Iterator[Any]:
        yield Pull(rows=[{"id": 1}, ["id", 2]])

    def pulls(_: Ask) -> Iterator[Any]:
        yield {"rows": []}

    shop.module.script = rows
    row_message = told(shop.run())
    shop.module.script = pulls
    pull_message = told(shop.run())

    assert "orders, pull 0" in row_message
    assert "'row 2'" in row_message
    assert "yielded value 1" in pull_message


def test_a_position_that_json_cannot_hold_is_told(shop: Shop) -> None:
    shop.module.script = lambda _: iter([Pull(rows=orders(1), position={1, 2}, more=True)])

    assert "'position'" in told(shop.run())
