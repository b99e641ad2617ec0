from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.corpus.types import arrow_type
from engine.errors import StoreSchemaIncompatible
from engine.pipeline import bulk, columns
from engine.pipeline.convert import Spelled, converter
from engine.pipeline.shape import Shaped, shape


def declared(logical: str, *values: Any) -> Shaped:
    return shape([{"x": value} for value in values], declared={"x": logical}, table="t", place="page 3")


def landed(logical: str, *values: Any) -> list[Any]:
    result = declared(logical, *values)
    assert result.schema["x"].type == logical
    assert result.batch.column("x").type == arrow_type(logical)
    return result.batch.column("x").to_pylist()


@pytest.mark.parametrize(
    ("logical", "value", "expected"),
    [
        ("string", 5, "5"),
        ("string", 1.5, "1.5"),
        ("string", True, "true"),
        ("string", {"b": 1, "a": 2}, '{"a":2,"b":1}'),
        ("string", dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "2026-01-01T00:00:00Z"),
        ("string", b"\xff", "/w=="),
        ("int64", "-42", -42),
        ("int64", "+9223372036854775807", 2**63 - 1),
        ("int64", 3.0, 3),
        ("float64", 2**53, float(2**53)),
        ("float64", "1e3", 1000.0),
        ("float64", "-Infinity", float("-inf")),
        ("float64", Decimal("Infinity"), float("inf")),
        ("decimal(18,4)", "19.99", Decimal("19.9900")),
        ("decimal(18,4)", 19.99, Decimal("19.9900")),
        ("decimal(18,4)", "1E+3", Decimal("1000.0000")),
        ("decimal(18,4)", -7, Decimal("-7.0000")),
        ("decimal(18,4)", Decimal("0.10000"), Decimal("0.1000")),
        ("decimal(38,0)", 10**38 - 1, Decimal(10**38 - 1)),
        ("decimal(2,2)", "0.25", Decimal("0.25")),
        ("bool", "TRUE", True),
        ("date", "2026-01-31", dt.date(2026, 1, 31)),
        ("bytes", "aGk=", b"hi"),
        ("bytes", b"hi", b"hi"),
        ("json", "plain", '"plain"'),
        ("json", ' {"b": 1, "a": [2]}', '{"a":[2],"b":1}'),
        ("json", "[oops", '"[oops"'),
        ("json", 5, "5"),
        ("json", [1, {"a": None}], '[1,{"a":null}]'),
    ],
)
def test_a_value_converts_exactly(logical: str, value: Any, expected: Any) -> None:
    assert landed(logical, value, None) == [expected, None]


@pytest.mark.parametrize(
    ("logical", "value"),
    [
        ("int64", 2**63),
        ("int64", 1.5),
        ("int64", True),
        ("int64", "1_0"),
        ("int64", " 1"),
        ("int64", float("nan")),
        ("float64", 2**53 + 1),
        ("float64", "9007199254740993"),
        ("float64", True),
        ("float64", "1,5"),
        ("decimal(18,4)", "1.23456"),
        ("decimal(18,4)", 0.1 + 0.2),
        ("decimal(18,4)", "100000000000000"),
        ("decimal(18,4)", "NaN"),
        ("decimal(18,4)", float("inf")),
        ("decimal(18,4)", False),
        ("decimal(18,4)", "٣"),
        ("decimal(2,2)", "1.25"),
        ("bool", 1),
        ("bool", "yes"),
        ("date", "2026-02-30"),
        ("date", "20260131"),
        ("date", "2026-01-31T00:00:00Z"),
        ("date", dt.datetime(2026, 1, 1)),
        ("timestamp", "2026-01-01T00:00:00"),
        ("timestamp", "2026-01-01"),
        ("timestamp", "2026-13-01T00:00:00Z"),
        ("timestamp", "2026-01-01T00:00:60Z"),
        ("timestamp", "0001-01-01T00:00:00+14:00"),
        ("timestamp", 1_700_000_000),
        ("bytes", "not base64!"),
        ("bytes", 5),
        ("json", {"a": "\ud800"}),
        ("float64", "1e999"),
        ("float64", Decimal("-1E+999")),
        ("json", "[" * 100_000),
    ],
)
def test_a_value_that_is_not_of_the_declared_type_is_refused_where_it_stands(logical: str, value: Any) -> None:
    with pytest.raises(StoreSchemaIncompatible) as refusal:
        declared(logical, None, value)

    facts = refusal.value.facts
    assert (facts["column"], facts["standing"], facts["place"]) == ("x", logical, "page 3, row 2")
    assert facts["found"] == columns.shown(value)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-01-31T06:00:00Z", "2026-01-31 06:00:00+00:00"),
        ("2026-01-31t06:00:00.5z", "2026-01-31 06:00:00.500000+00:00"),
        ("2026-01-31 06:00:00+05:30", "2026-01-31 00:30:00+00:00"),
        ("2026-01-31T23:59:59.123456-08:00", "2026-02-01 07:59:59.123456+00:00"),
        ("1969-12-31T23:59:59.999999Z", "1969-12-31 23:59:59.999999+00:00"),
    ],
)
def test_an_rfc_3339_instant_of_any_offset_lands_in_utc(text: str, utc: str) -> None:
    result = declared("timestamp", text)

    assert [str(value) for value in result.batch.column("x").to_pylist()] == [utc]
    assert result.downgrades == ()


def test_digits_behind_the_microsecond_are_cut_and_said() -> None:
    result = declared("timestamp", "2026-01-31T06:00:00.1234567Z", "2026-01-31T06:00:00.1234560Z")

    assert {str(value)[-12:-6] for value in result.batch.column("x").to_pylist()} == {"123456"}
    assert [(event.path, event.reason) for event in result.downgrades] == [
        ("x", "digits behind the microsecond are cut")
    ]
    assert declared("timestamp", "2026-01-31T06:00:00.1234560Z").downgrades == ()


def test_a_json_number_keeps_the_digits_a_float_would_lose() -> None:
    text = b'[{"x": 123456789012345678.123456789012345678, "y": {"z": 1.50}}, {"x": 1}]'
    rows = msgspec.json.Decoder(list[dict[str, Any]], float_hook=Spelled).decode(text)

    exact = shape(rows, declared={"x": "decimal(38,18)"}, table="t", place="p")
    plain = shape(rows, declared={}, table="t", place="p")

    assert exact.batch.column("x").to_pylist() == [Decimal("123456789012345678.123456789012345678"), Decimal(1)]
    assert plain.batch.column("x").to_pylist() == [123456789012345678.123456789012345678, 1.0]
    assert plain.batch.column("y").to_pylist() == ['{"z":1.5}', None]


@pytest.mark.parametrize("text", ["1e400", '{"z": [-1e400]}'])
def test_a_json_number_no_float_is_as_large_as_is_refused_beside_declared_decimals_too(text: str) -> None:
    with pytest.raises(msgspec.MsgspecError, match="out of range"):
        msgspec.json.Decoder(float_hook=Spelled).decode(f'[{{"x": {text}, "price": 1.50}}]')


def test_a_number_that_fits_no_decimal_is_shown_as_it_was_written() -> None:
    with pytest.raises(StoreSchemaIncompatible, match="cannot take 1e-400 "):
        declared("decimal(9,2)", Spelled("1e-400"))


@pytest.mark.parametrize("rows", [[{"Price": "1.5"}], pa.table({"Price": ["1.5"]})])
def test_a_type_is_declared_for_a_column_whatever_its_case(rows: Any) -> None:
    result = shape(rows, declared={"price": "decimal(9,2)"}, table="t", place="p")

    assert result.batch.to_pylist() == [{"Price": Decimal("1.50")}]


def test_a_declared_column_of_nulls_has_its_type_and_an_absent_one_is_no_column() -> None:
    result = declared("date", None, None)

    assert result.untyped == ()
    assert result.batch.schema.field("x").type == pa.date32()
    assert shape([{"y": 1}], declared={"x": "date"}, table="t", place="p").batch.schema.names == ["y"]


def test_declared_json_is_no_downgrade() -> None:
    assert declared("json", {"a": 1}).downgrades == ()


def test_lone_surrogates_are_refused_in_declared_text_too() -> None:
    with pytest.raises(StoreSchemaIncompatible, match="row 2"):
        declared("string", 5, "\ud800")


PLAIN = st.one_of(
    st.integers().map(str),
    st.decimals(allow_nan=False, places=3, min_value=-(10**9), max_value=10**9).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.dates().map(str),
    st.datetimes(timezones=st.just(dt.UTC)).map(dt.datetime.isoformat),
    st.from_regex(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)", fullmatch=True),
    st.text(max_size=4),
)


@given(
    st.lists(st.none() | PLAIN, max_size=3), st.sampled_from(["int64", "float64", "date", "timestamp", "decimal(9,3)"])
)
def test_a_column_converted_at_once_is_the_column_converted_cell_by_cell(texts: list[str | None], logical: str) -> None:
    at_once = bulk.converted(texts, logical)

    if at_once is not None:
        cells = [None if text is None else converter(logical)(text) for text in texts]
        assert at_once.equals(pa.array(cells, type=arrow_type(logical)))
