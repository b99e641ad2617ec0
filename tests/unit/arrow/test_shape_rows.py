from __future__ import annotations

import datetime as dt
import uuid
import zoneinfo
from collections import OrderedDict, UserDict
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.corpus.schema import Column, Schema
from engine.errors import ColumnNameRefused, SchemaIncompatible, SourceShape, StoreSchemaIncompatible
from engine.pipeline.columns import Downgrade
from engine.pipeline.recording import PullMeta, encode
from engine.pipeline.shape import Shaped, shape, taken

if TYPE_CHECKING:
    from collections.abc import Callable

EXACT = 2**53


def shaped(*rows: Any, **declared: str) -> Shaped:
    return shape(list(rows), declared=declared, table="t", place="page 1")


def column(*values: Any) -> Shaped:
    return shaped(*({"x": value} for value in values))


def test_columns_are_the_union_of_all_rows_keys_in_first_seen_order() -> None:
    result = shaped({"b": 1}, {"c": "x", "a": True}, {"b": 2, "d": 1.5})

    assert result.batch.schema.names == ["b", "c", "a", "d"]
    assert result.batch.to_pylist() == [
        {"b": 1, "c": None, "a": None, "d": None},
        {"b": None, "c": "x", "a": True, "d": None},
        {"b": 2, "c": None, "a": None, "d": 1.5},
    ]


def test_rows_with_the_same_keys_in_another_order_land_under_their_names() -> None:
    assert shaped({"a": 1, "b": "x"}, {"b": "y", "a": 2}).batch.to_pydict() == {"a": [1, 2], "b": ["x", "y"]}


def test_strings_stay_strings_whatever_they_look_like() -> None:
    values = ["2026-01-01", "1", "true", "null", "", '{"a":1}', "žluťoučký 🐎"]

    result = column(*values)

    assert result.schema == Schema((Column("x", "string"),))
    assert result.batch.column("x").to_pylist() == values


def to_utc(value: dt.datetime) -> dt.datetime:
    return value.astimezone(zoneinfo.ZoneInfo("UTC"))


AS_PYTHON: dict[str, Callable[[Any], Any]] = {"float64": float, "decimal(38,0)": Decimal, "timestamp": to_utc}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, None, -7], Column("x", "int64", 7)),
        ([2**63 - 1, -(2**63)], Column("x", "int64", 2**63)),
        ([2**63, 1], Column("x", "decimal(38,0)", 2**63)),
        ([10**38 - 1, None], Column("x", "decimal(38,0)", 10**38 - 1)),
        ([1.5, float("nan"), float("inf")], Column("x", "float64")),
        ([EXACT, 1.5, -EXACT], Column("x", "float64")),
        ([True, None], Column("x", "bool")),
        ([b"\x00"], Column("x", "bytes")),
        ([dt.date(2026, 1, 31)], Column("x", "date")),
        ([dt.datetime(2026, 1, 31, tzinfo=dt.UTC)], Column("x", "timestamp")),
    ],
)
def test_a_column_is_what_its_values_are(values: list[Any], expected: Column) -> None:
    result = column(*values)

    assert result.schema["x"] == expected
    assert [repr(value) for value in result.batch.column("x").to_pylist()] == [
        repr(value if value is None else AS_PYTHON.get(expected.type, lambda same: same)(value)) for value in values
    ]


def test_an_instant_of_any_offset_lands_in_utc_and_a_naive_one_is_utc() -> None:
    east = dt.timezone(dt.timedelta(hours=5, minutes=30))

    result = column(dt.datetime(2026, 1, 1, 3, tzinfo=east), dt.datetime(2026, 1, 1, 3, 0, 0, 7))

    assert [str(value) for value in result.batch.column("x").to_pylist()] == [
        "2025-12-31 21:30:00+00:00",
        "2026-01-01 03:00:00.000007+00:00",
    ]


@pytest.mark.parametrize(
    ("values", "standing", "found", "row"),
    [
        (["a", None, 1], "string", "integer 1", 3),
        ([1, "a"], "integer", "string 'a'", 2),
        ([1, True], "integer", "boolean True", 2),
        ([False, 0], "boolean", "integer 0", 2),
        ([1, 1.5, "x"], "float and integer", "string 'x'", 3),
        ([{"a": 1}, "x"], "object", "string 'x'", 2),
        ([dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, tzinfo=dt.UTC)], "date", "instant datetime", 2),
        ([EXACT + 1, 1.5], "float64", "the integer 9007199254740993, which no float64 holds", 1),
        ([1.5, None, -(EXACT + 1)], "float64", "the integer -9007199254740993", 3),
        ([2**70, 1.5], "float64", "the integer 1180591620717411303424", 1),
        ([1, -(10**38)], "decimal(38,0)", "the integer -1000000", 2),
        ([None, Decimal("1.5")], "not declared", "decimal Decimal('1.5')", 2),
        ([None, 1j], "not declared", "complex 1j", 2),
        (["ok", "bad \ud800"], "string", r"text that is not valid Unicode: 'bad \ud800'", 2),
        ([{"a": "\udfff"}], "json", "{'a': '\\udfff'}", 1),
        ([{"a": object}], "json", "{'a': <class 'object'>}", 1),
    ],
)
def test_a_mixture_is_refused_where_it_stands(values: list[Any], standing: str, found: str, row: int) -> None:
    with pytest.raises(StoreSchemaIncompatible) as refusal:
        column(*values)

    facts = refusal.value.facts
    assert (facts["table"], facts["column"], facts["place"]) == ("t", "x", f"page 1, row {row}")
    assert facts["standing"] == standing
    assert facts["found"].startswith(found)


def test_a_long_value_is_shortened_in_the_error() -> None:
    with pytest.raises(StoreSchemaIncompatible) as refusal:
        column(1, "a" * 5000)

    assert "a" * 59 in str(refusal.value)
    assert "a" * 60 not in str(refusal.value)


@pytest.mark.clause("run.record.schema-diff-shape")
def test_nested_values_land_as_canonical_json_with_one_event_a_column() -> None:
    result = column({"b": [1, 2.5, None], "a": {"ü": 2**70}}, ["x"], None, {}, {"b": 1, "a": 2})

    assert result.batch.column("x").to_pylist() == [
        '{"a":{"ü":1180591620717411303424},"b":[1,2.5,null]}', '["x"]', None, "{}", '{"a":2,"b":1}',
    ]  # fmt: skip
    assert result.schema == Schema((Column("x", "json"),))
    assert result.downgrades == (Downgrade("x", "array or object", "json", "nested values land as JSON text"),)


def test_a_value_nested_deeper_than_can_be_written_is_refused_where_it_stands() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(StoreSchemaIncompatible, match=r"type list that is too deep .*page 1, row 2"):
        column({}, deep)


def test_an_integer_of_more_digits_than_python_writes_is_refused_where_it_stands() -> None:
    with pytest.raises(StoreSchemaIncompatible, match=r"type int that is too .*page 1, row 2"):
        column(1, 10**5000)


def test_values_that_land_as_their_text_say_so() -> None:
    identity = uuid.UUID(int=7)

    result = shaped({"at": dt.time(1, 2, 3), "id": identity})

    assert result.batch.to_pylist() == [{"at": "01:02:03", "id": str(identity)}]
    assert [(event.path, event.source, event.landed) for event in result.downgrades] == [
        ("at", "time", "string"),
        ("id", "uuid", "string"),
    ]


def test_a_column_null_throughout_stays_untyped_and_out_of_the_batch() -> None:
    result = shaped({"a": None, "b": 1}, {"c": None})

    assert result.untyped == ("a", "c")
    assert result.batch.schema.names == ["b"]


@pytest.mark.parametrize("rows", [[{}, {}], [{"a": None}, {}]])
def test_rows_without_any_value_are_still_rows(rows: list[Any]) -> None:
    assert shaped(*rows).batch.num_rows == 2


def test_an_empty_page_is_an_empty_batch() -> None:
    result = shaped()

    assert (result.batch.num_rows, result.batch.num_columns, result.schema) == (0, 0, Schema())


def test_any_mapping_is_a_row_and_any_iterable_holds_rows() -> None:
    rows = (row for row in (OrderedDict(a=1), UserDict({"a": 2}), {"a": 3}))

    assert shape(rows, declared={}, table="t", place="p").batch.to_pydict() == {"a": [1, 2, 3]}


@pytest.mark.parametrize(("row", "found"), [("text", "str 'text'"), (None, "NoneType None"), ([1], "list [1]")])
def test_a_row_that_is_no_mapping_is_refused_by_number(row: Any, found: str) -> None:
    with pytest.raises(SourceShape) as refusal:
        shaped({"a": 1}, row)

    assert (refusal.value.place, refusal.value.path, refusal.value.found) == ("page 1", "row 2", found)


def test_keys_that_are_no_names_are_refused() -> None:
    with pytest.raises(SourceShape, match="the keys of a row"):
        shaped({7: 1})
    with pytest.raises(ColumnNameRefused, match=r"'_row_seq'.*page 1"):
        shaped({"_row_seq": 1})
    with pytest.raises(ColumnNameRefused, match="case only"):
        shaped({"a": 1}, {"A": None})


def test_a_declaration_that_is_no_type_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(SourceShape, match=r"types.x.*'text'.*allowed: string"):
        shaped({"x": 1}, x="text")


CELL = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.integers(-9, 9), st.floats(), st.text(max_size=3),
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=2), st.none(), max_size=2),
)  # fmt: skip


def landed(*pages: list[Any]) -> Schema | None:
    """The schema after all pages, None where they do not go together."""
    schema = Schema()
    try:
        for page in pages:
            schema = schema.merged(column(*page).schema, table="t", place="p")
    except SchemaIncompatible:
        return None
    return schema.landed()


@pytest.mark.clause("run.own.stage-schema")
@given(st.lists(CELL, max_size=4), st.lists(CELL, max_size=4))
def test_where_a_page_ends_decides_no_type(first: list[Any], second: list[Any]) -> None:
    assert landed(first, second) == landed([*first, *second])
    assert landed(second, first) == landed(first, second)


@pytest.mark.parametrize("count", [3, 3_000], ids=["few", "many"])
@pytest.mark.parametrize("huge", [1, 2**70], ids=["int64", "decimal"])
def test_the_largest_integer_of_a_column_is_known_without_its_sign(count: int, huge: int) -> None:
    result = column(*range(count - 1), -huge * 10_000)

    assert result.schema["x"].largest == huge * 10_000


ROW = st.fixed_dictionaries(
    {"a": st.none() | st.text(max_size=3), "b": st.none() | st.integers(-9, 9), "c": st.none() | st.booleans()}
)


@pytest.mark.clause("run.journal.recorded-batch")
@given(st.lists(ROW, min_size=1, max_size=20), st.data())
def test_a_run_of_rows_is_taken_as_the_bytes_that_arrow_takes(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    batch = shaped(*rows, a="string", b="int64", c="bool").batch
    places = st.integers(0, len(rows))
    chosen = list(data.draw(st.builds(range, places, places)))

    found = taken(batch, chosen)

    assert encode(found, PullMeta()) == encode(batch.take(pa.array(chosen, pa.int64())), PullMeta())
    assert found.to_pylist() == [batch.to_pylist()[at] for at in chosen]
