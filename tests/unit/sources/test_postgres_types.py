"""What PostgreSQL holds is what lands: types, digits and instants."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from urllib.parse import quote

import pytest

from engine.corpus.values import plain
from engine.errors import Config, ContextfulError, Permanent
from engine.pipeline.shape import shape
from engine.pipeline.source import Secrets
from tests.postgres import PASSWORD

VALUES = {
    "small": ("smallint", "-32768", "int64", -32768),
    "big": ("bigint", "9223372036854775807", "int64", 9223372036854775807),
    "price": ("numeric(20,4)", "1234567890123456.7891", "decimal(20,4)", Decimal("1234567890123456.7891")),
    "widest": ("numeric(38,0)", "9" * 38, "decimal(38,0)", Decimal("9" * 38)),
    "enormous": ("numeric", "1" + "0" * 60 + ".000000000000000000000000000001", "string",
                 "1" + "0" * 60 + ".000000000000000000000000000001"),
    "too_wide": ("numeric(60,2)", "1" + "0" * 50 + ".25", "string", "1" + "0" * 50 + ".25"),
    "upwards": ("numeric(5,-2)", "12300", "string", "12300"),
    "narrow": ("real", "0.1", "float64", 0.1),
    "wide": ("double precision", "0.1234567890123456", "float64", 0.1234567890123456),
    "yes": ("boolean", "true", "bool", True),
    "zoned": ("timestamptz", "'2026-03-29 02:30:00.123456+05:30'", "timestamp",
              datetime(2026, 3, 28, 21, 0, 0, 123456, tzinfo=UTC)),
    "bare": ("timestamp", "'2026-03-29 02:30:00.000001'", "timestamp", datetime(2026, 3, 29, 2, 30, 0, 1, tzinfo=UTC)),
    "day": ("date", "'2026-02-28'", "date", date(2026, 2, 28)),
    "data": ("bytea", r"'\x00ff5c27'", "bytes", b"\x00\xff\\'"),
    "words": ("text", "'ünï %s \\ \"x\"'", "string", 'ünï %s \\ "x"'),
    "padded": ("char(3)", "'a'", "string", "a  "),
    "doc": ("jsonb", """'{"b": [1, 123456789012345678901, null], "a": "x"}'""", "json",
            '{"a":"x","b":[1,123456789012345678901,null]}'),
    "scalar": ("json", """'"text"'""", "json", '"text"'),
    "number": ("json", "'5'", "json", "5"),
    "id": ("uuid", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "string", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "tags": ("text[]", "ARRAY['a', NULL, 'b\"c']", "json", '["a",null,"b\\"c"]'),
    "amounts": ("numeric[]", "ARRAY[1.10, 2]", "json", '["1.10","2"]'),
    "host": ("inet", "'10.0.0.1/24'", "string", "10.0.0.1/24"),
    "span": ("int4range", "'[1,5)'", "string", "[1,5)"),
    "wait": ("interval", "'1 month 2 days'", "string", "P1M2D"),
    "clock": ("time", "'23:59:59.5'", "string", "23:59:59.5"),
    "mood": ("mood", "'so so'", "string", "so so"),
    "positive": ("positive", "7.50", "decimal(6,2)", Decimal("7.50")),
}  # fmt: skip


@pytest.fixture
def everything(postgres_database):
    """One row of every type, and one of nulls."""
    postgres_database("CREATE TYPE mood AS ENUM ('so so')")
    postgres_database("CREATE DOMAIN positive AS numeric(6,2) CHECK (VALUE > 0)")
    columns = ", ".join(f"{name} {spelled}" for name, (spelled, *_) in VALUES.items())
    postgres_database(f"CREATE TABLE orders (key integer, {columns})")
    values = ", ".join(literal for _, literal, *_ in VALUES.values()).replace("%", "%%")
    postgres_database.session.execute(f"INSERT INTO orders VALUES (1, {values})", ())
    postgres_database("INSERT INTO orders (key) VALUES (2)")
    return postgres_database


@pytest.mark.parametrize("name", VALUES)
def test_a_type_lands_as_it_is(everything, name):
    (pull,) = everything.pulls(everything.table(primary_key=("key",)))

    shaped = shape(pull.rows, declared=pull.types, table="orders", place="here")

    *_, logical, value = VALUES[name]
    assert pull.types[name] == logical
    assert shaped.schema[name].type == logical
    assert shaped.batch.column(name).to_pylist() == [value, None]


def test_a_number_without_bounds_lands_as_what_the_manifest_declares(everything):
    table = everything.table(primary_key=("key",), types={"enormous": "decimal(38,2)"})
    everything("UPDATE orders SET enormous = 12.5")

    (pull,) = everything.pulls(table)

    shaped = shape(pull.rows, declared=pull.types, table="orders", place="here")
    assert shaped.batch.column("enormous").to_pylist() == [Decimal("12.50"), Decimal("12.50")]


def test_a_number_without_bounds_is_no_watermark_until_it_is_declared(everything):
    everything("DELETE FROM orders WHERE enormous IS NULL")
    with pytest.raises(Config, match=r"declare columns\.enormous\.type"):
        everything.pulls(everything.table(incremental="enormous"))

    everything("UPDATE orders SET enormous = 12.5")
    (pull,) = everything.pulls(everything.table(incremental="enormous", types={"enormous": "decimal(9,1)"}), since=12)

    assert len(pull.rows) == 1


def test_a_nan_has_no_place_in_a_decimal_and_is_named_with_its_row(everything):
    everything("UPDATE orders SET price = 'NaN' WHERE key = 2")
    (pull,) = everything.pulls(everything.table(primary_key=("key",)))

    with pytest.raises(ContextfulError, match=r"orders\.price .* row 2"):
        shape(pull.rows, declared=pull.types, table="orders", place="here")


@pytest.mark.parametrize(
    ("spelled", "below", "at", "since"),
    [
        ("timestamptz", "2026-01-01 00:00:00.000999Z", "2025-12-31 20:30:00.001-03:30", "2026-01-01T00:00:00.001000Z"),
        ("timestamp", "2026-01-01 00:00:00.000999", "2026-01-01 00:00:00.001", "2026-01-01T00:00:00.001000Z"),
        ("date", "2026-01-01", "2026-01-02", "2026-01-02"),
        ("bigint", "9007199254740992", "9007199254740993", 9007199254740993),
        ("numeric(20,2)", "9.99", "10.00", 10),
        ("numeric(20,3)", "9.998", "9.999", "9.999"),
        ("double precision", "0.1", "0.30000000000000004", 0.30000000000000004),
        ("text", "B", "a", "a"),
    ],
)  # fmt: skip
def test_a_watermark_of_any_type_asks_for_what_is_at_or_above_it_to_the_last_digit(
    postgres_database, spelled, below, at, since
):
    postgres_database(f"CREATE TABLE orders (id integer, at {spelled})")
    postgres_database("INSERT INTO orders VALUES (1, ?), (2, ?), (3, ?)", below, at, at)
    table = postgres_database.table(primary_key=("id",), incremental="at", source={"batch": 1})

    pulls = postgres_database.pulls(table, since=since)
    again = postgres_database.pulls(table, since=since, position=pulls[0].position)

    assert [[row["id"] for row in pull.rows] for pull in pulls] == [[2], [3]]
    assert [[row["id"] for row in pull.rows] for pull in again] == [[3]]


def test_texts_are_ordered_by_their_code_points_whatever_the_column_is_collated_by(postgres_database):
    postgres_database('CREATE TABLE orders (id integer, at text COLLATE "en-x-icu")')
    postgres_database("INSERT INTO orders VALUES (1, 'a'), (2, 'B'), (3, 'b'), (4, 'A')")
    table = postgres_database.table(primary_key=("id",), incremental="at", source={"batch": 1})

    pulls = postgres_database.pulls(table, since="B")

    assert [row["at"] for pull in pulls for row in pull.rows] == ["B", "a", "b"]


def test_texts_that_are_instants_keep_the_servers_precision_beside_a_finer_watermark(postgres_database):
    postgres_database("CREATE TABLE orders (id integer, at text)")
    postgres_database("INSERT INTO orders VALUES (1, '2026-01-01T00:00:00.123456Z'), (2, '2026-01-01T00:00:00.1Z')")

    (pull,) = postgres_database.pulls(postgres_database.table(incremental="at"), since="2026-01-01T00:00:00.1234567Z")

    assert [row["id"] for row in pull.rows] == [1]


@pytest.mark.parametrize("name", ["data", "doc", "price", "zoned"])
def test_what_json_lacks_is_still_told(everything, name):
    (pull,) = everything.pulls(everything.table(primary_key=("key",)))

    assert plain(pull.rows[0][name]) is not None


@pytest.mark.parametrize("spelled", ["TIMESTAMPTZ 'infinity'", "DATE '-infinity'", "TIMESTAMP '0044-03-15 BC'"])
def test_an_instant_that_nothing_holds_is_told_with_the_way_round_it(postgres_database, spelled):
    beyond = postgres_database.table(source={"query": f"SELECT {spelled} AS at"})
    as_text = postgres_database.table(source={"query": f"SELECT ({spelled})::text AS at"})

    with pytest.raises(Permanent, match=r"cast its column to text in source\.query"):
        postgres_database.pulls(beyond)
    assert len(postgres_database.pulls(as_text)[0].rows) == 1


def test_a_query_cannot_write(postgres_database):
    postgres_database("CREATE SEQUENCE numbers")

    with pytest.raises(Permanent, match="read-only transaction"):
        postgres_database.pulls(postgres_database.table(source={"query": "SELECT nextval('numbers') AS id"}))


def test_two_columns_of_one_name_are_refused(postgres_database):
    with pytest.raises(Permanent, match="two columns are named 'id'"):
        postgres_database.pulls(postgres_database.table(source={"query": "SELECT 1 AS id, 2 AS id"}))


def test_a_whole_dsn_may_be_one_secret(postgres_database, postgres):
    postgres_database("CREATE TABLE orders AS SELECT 1 AS id")
    dsn = postgres_database.dsn.replace("${PASSWORD}", quote(PASSWORD, safe=""))
    hidden = replace(postgres_database, dsn="${DSN}", secrets=Secrets({"DSN": dsn}))

    (pull,) = hidden.pulls(hidden.table())

    assert pull.rows == [{"id": 1}]


def test_what_a_query_says_of_zones_is_said_in_utc_whatever_the_servers_own(postgres_database):
    query = "SELECT 1 AS id, CAST(timestamp '2026-07-01 00:00' AS timestamptz) AS at"

    (pull,) = postgres_database.pulls(postgres_database.table(source={"query": query}))

    assert pull.rows == [{"id": 1, "at": datetime(2026, 7, 1, tzinfo=UTC)}]
