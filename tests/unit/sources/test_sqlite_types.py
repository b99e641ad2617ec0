"""SQLite keeps values, not types: a column's declaration says what they should be, and one that is not is named."""

from __future__ import annotations

import sqlite3
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from engine.errors import ConnectorBoundHit, ContextfulError, CursorPositionUnorderable, Transient
from engine.pipeline.shape import shape

VALUES = {
    "number": ("INTEGER", -(1 << 63), "int64", -(1 << 63)),
    "yes": ("BOOLEAN", 1, "bool", True),
    "price": ("DECIMAL(10,2)", "12.30", "decimal(10,2)", Decimal("12.30")),
    "whole": ("NUMERIC(8)", 12, "decimal(8,0)", Decimal(12)),
    "ratio": ("REAL", 0.1, "float64", 0.1),
    "words": ("VARCHAR(10)", "ünï ` \" '", "string", "ünï ` \" '"),
    "data": ("BLOB", b"\x00\xff", "bytes", b"\x00\xff"),
    "doc": ("JSON", '{"b":[1,123456789012345678901],"a":null}', "json", '{"a":null,"b":[1,123456789012345678901]}'),
    "text_doc": ("JSON", '"5"', "json", '"5"'),
    "day": ("DATE", "2026-02-28", "date", date(2026, 2, 28)),
    "bare": ("TIMESTAMP", "2026-01-02 03:04:05", "timestamp", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
    "micros": ("DATETIME", "2026-01-02T03:04:05.000001", "timestamp", datetime(2026, 1, 2, 3, 4, 5, 1, tzinfo=UTC)),
    "minute": ("DATETIME", "2026-01-02 03:04", "timestamp", datetime(2026, 1, 2, 3, 4, tzinfo=UTC)),
    "midnight": ("DATETIME", "2026-01-02", "timestamp", datetime(2026, 1, 2, tzinfo=UTC)),
    "zoned": ("TIMESTAMP", "2026-01-02T03:04:05.25-01:00", "timestamp",
              datetime(2026, 1, 2, 4, 4, 5, 250000, tzinfo=UTC)),
    "untyped": ("", 7, "int64", 7),
    "plain_numeric": ("NUMERIC", 1.5, "float64", 1.5),
}  # fmt: skip

WRONG = {
    "text in a number": ("INTEGER", "seven", r"orders\.x is int64 and cannot take 'seven' .*row 2"),
    "a fraction in a number": ("INTEGER", 1.5, r"orders\.x is int64 and cannot take 1\.5 .*row 2"),
    "an integer beyond 64 bits": ("INTEGER", 1.8446744073709552e19, r"int64 and cannot take 1\.84.*row 2"),
    "more digits than declared": ("DECIMAL(4,2)", "1.234", r"decimal\(4,2\) and cannot take 1\.234 .*row 2"),
    "a two in a boolean": ("BOOLEAN", 2, r"row 2 .*'x' stood 2, expected 0 or 1"),
    "bytes in text": ("TEXT", b"\xff", r"row 2 .*'x' stood b'\\xff', expected text"),
    "seconds in an instant": ("TIMESTAMP", 1767225600, r"row 2 .*'x' stood 1767225600, .*columns\.<name>\.type"),
    "words in an instant": ("TIMESTAMP", "yesterday", r"timestamp and cannot take 'yesterday' .*row 2"),
    "no JSON": ("JSON", "{", r"row 2 .*'x' stood '\{', expected JSON"),
    "a time in a day": ("DATE", "2026-01-01 10:00", r"date and cannot take '2026-01-01 10:00' .*row 2"),
}  # fmt: skip


def landed(database: Any, table: Any) -> Any:
    (pull,) = database.pulls(table)
    declared = pull.types | {name: column.type for name, column in table.columns.items() if column.type}
    return shape(pull.rows, declared=declared, table="orders", place="here")


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("queried", [False, True])
def test_a_value_lands_as_its_column_is_declared(sqlite_database, name, queried):
    spelled, value, logical, expected = VALUES[name]
    sqlite_database(f"CREATE TABLE orders (id INTEGER PRIMARY KEY, x {spelled})")
    sqlite_database("INSERT INTO orders VALUES (1, ?), (2, NULL)", value)
    source = {"query": "SELECT x, id FROM orders"} if queried else {}

    shaped = landed(sqlite_database, sqlite_database.table(primary_key=("id",), source=source))

    assert shaped.schema["x"].type == logical
    assert shaped.batch.column("x").to_pylist() == [expected, None]


@pytest.mark.parametrize("case", WRONG)
def test_a_value_that_is_not_what_its_column_says_is_named_with_its_row(sqlite_database, case):
    spelled, value, said = WRONG[case]
    sqlite_database(f"CREATE TABLE orders (id INTEGER PRIMARY KEY, x {spelled})")
    sqlite_database("INSERT INTO orders VALUES (1, NULL), (2, ?)", value)

    with pytest.raises(ContextfulError, match=said):
        landed(sqlite_database, sqlite_database.table(primary_key=("id",)))


@pytest.mark.parametrize(
    ("spelled", "value", "declared", "expected"),
    [
        ("TIMESTAMP", 1767225600, "int64", 1767225600),
        ("TEXT", "2026-01-01 00:00:00", "timestamp", datetime(2026, 1, 1, tzinfo=UTC)),
        ("INTEGER", 1, "bool", True),
        ("TEXT", '{"a":1}', "json", '{"a":1}'),
        ("REAL", 0.1, "decimal(3,1)", Decimal("0.1")),
    ],
)
def test_the_manifest_says_better_what_a_column_holds(sqlite_database, spelled, value, declared, expected):
    sqlite_database(f"CREATE TABLE orders (id INTEGER PRIMARY KEY, x {spelled})")
    sqlite_database("INSERT INTO orders VALUES (1, ?)", value)

    shaped = landed(sqlite_database, sqlite_database.table(primary_key=("id",), types={"x": declared}))

    assert shaped.batch.column("x").to_pylist() == [expected]


@pytest.mark.parametrize(
    ("spelled", "below", "at", "since"),
    [
        ("INTEGER", 9007199254740992, 9007199254740993, 9007199254740993),
        ("REAL", 0.1, 0.30000000000000004, 0.30000000000000004),
        ("DECIMAL(9,3)", "9.998", "9.999", "9.999"),
        ("DECIMAL(9,2)", "9.99", "10.00", 10),
        ("DATE", "2025-12-30", "2026-01-01", "2026-01-01"),
        ("TIMESTAMP", "2025-12-30 23:59:59.999", "2026-01-01 00:00:00", "2026-01-01T00:00:00.000000Z"),
        ("TEXT", "A", "a", "B"),
    ],
)
def test_a_watermark_of_any_type_asks_for_what_is_at_or_above_it(sqlite_database, spelled, below, at, since):
    sqlite_database(f"CREATE TABLE orders (id INTEGER PRIMARY KEY, at {spelled})")
    sqlite_database("INSERT INTO orders VALUES (1, ?), (2, ?), (3, ?)", below, at, at)
    table = sqlite_database.table(primary_key=("id",), incremental="at", source={"batch": 1})

    pulls = sqlite_database.pulls(table, since=since)
    again = sqlite_database.pulls(table, since=since, position=pulls[0].position)

    assert [[row["id"] for row in pull.rows] for pull in pulls] == [[2], [3]]
    assert [[row["id"] for row in pull.rows] for pull in again] == [[3]]


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01T00:00:00.5Z",
        "2026-01-01 00:00:00.000001",
        "2025-12-31T23:00:00-02:00",
        "2026-01-01T03:00:00.1+02:00",
    ],
)
def test_an_instant_after_the_watermark_is_asked_for_however_it_is_spelled(sqlite_database, text):
    """As texts, some of these are below `2026-01-01T00:00:00.000000Z`."""
    sqlite_database("CREATE TABLE orders (id INTEGER PRIMARY KEY, at TIMESTAMP)")
    sqlite_database("INSERT INTO orders VALUES (1, ?)", text)

    (pull,) = sqlite_database.pulls(sqlite_database.table(incremental="at"), since="2026-01-01T00:00:00.000000Z")

    assert len(pull.rows) == 1


@pytest.mark.clause("run.advance.unorderable-position")
@pytest.mark.parametrize(("foreign", "since"), [(5, "2026-01-01T00:00:00Z"), ("text", 7)])
def test_a_clock_of_another_class_is_refused_and_not_left_out(sqlite_database, foreign, since):
    """SQLite orders every number below every text: a comparison with the watermark would hide the one or the other."""
    sqlite_database("CREATE TABLE orders (id INTEGER PRIMARY KEY, at)")
    sqlite_database("INSERT INTO orders VALUES (1, ?)", foreign)

    with pytest.raises(CursorPositionUnorderable, match="id = 1"):
        sqlite_database.pulls(sqlite_database.table(primary_key=("id",), incremental="at"), since=since)


def test_a_locked_file_is_tried_again(sqlite_database):
    sqlite_database("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    sqlite_database("BEGIN EXCLUSIVE")

    with pytest.raises(Transient, match="locked"):
        sqlite_database.pulls(sqlite_database.table(source={"timeout_ms": 50}))

    sqlite_database("ROLLBACK")


@pytest.mark.clause("run.retry.bound-hit-is-transient")
def test_a_statement_that_takes_too_long_strikes_the_deadline(sqlite_database):
    endless = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT max(id) AS id FROM n"

    with pytest.raises(ConnectorBoundHit) as refusal:
        sqlite_database.pulls(sqlite_database.table(source={"query": endless, "timeout_ms": 100}))

    assert refusal.value.bound == "call-deadline"


def test_bytes_make_a_key_like_any_other(sqlite_database):
    sqlite_database("CREATE TABLE orders (id BLOB PRIMARY KEY)")
    sqlite_database("INSERT INTO orders VALUES (x'00'), (x'ff'), (x'0a')")
    table = sqlite_database.table(primary_key=("id",), source={"batch": 1})

    pulls = sqlite_database.pulls(table)
    again = sqlite_database.pulls(table, position=pulls[0].position)

    assert [row["id"] for pull in pulls for row in pull.rows] == [b"\x00", b"\x0a", b"\xff"]
    assert [row["id"] for pull in again for row in pull.rows] == [b"\x0a", b"\xff"]


def test_a_log_beside_the_file_is_read_too(sqlite_database, tmp_path):
    sqlite_database("PRAGMA journal_mode = WAL")
    sqlite_database("CREATE TABLE orders AS SELECT 1 AS id")

    (pull,) = sqlite_database.pulls(sqlite_database.table())

    assert (tmp_path / "shop.db-wal").exists()
    assert pull.rows == [{"id": 1}]
    assert sqlite3.sqlite_version_info >= (3, 25)
