from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.corpus.schema import Column
from engine.errors import ColumnNameRefused, StoreSchemaIncompatible
from engine.pipeline.recording import PullMeta, encode
from engine.pipeline.shape import Shaped, shape


def shaped(rows: pa.Table | pa.RecordBatch, **declared: str) -> Shaped:
    return shape(rows, declared=declared, table="t", place="part.parquet")


def column(array: Any, **declared: str) -> Shaped:
    return shaped(pa.table({"x": array}), **declared)


def test_narrow_and_encoded_columns_land_as_their_values() -> None:
    table = pa.table(
        {
            "small": pa.array([1, None], pa.int8()),
            "single": pa.array([1.5, None], pa.float32()),
            "coded": pa.array(["a", None]).dictionary_encode(),
            "large": pa.array(["b", None], pa.large_string()),
            "day": pa.array([dt.date(2026, 1, 1), None], pa.date64()),
            "paris": pa.array([0, None], pa.timestamp("s", tz="Europe/Paris")),
            "naive": pa.array([1, None], pa.timestamp("ms")),
            "exact": pa.array([Decimal("1.50"), None], pa.decimal256(60, 2)),
            "raw": pa.array([b"ab", None], pa.binary(2)),
            "none": pa.nulls(2),
        }
    )

    result = shaped(table)

    assert [(c.name, c.type) for c in result.schema.columns] == [
        ("small", "int64"), ("single", "float64"), ("coded", "string"), ("large", "string"), ("day", "date"),
        ("paris", "timestamp"), ("naive", "timestamp"), ("exact", "decimal(38,2)"), ("raw", "bytes"),
    ]  # fmt: skip
    assert result.batch.schema == result.schema.arrow()
    assert list(map(str, result.batch.to_pylist()[0].values())) == [
        "1", "1.5", "a", "b", "2026-01-01", "1970-01-01 00:00:00+00:00", "1970-01-01 00:00:00.001000+00:00", "1.50",
        "b'ab'",
    ]  # fmt: skip
    assert set(result.batch.to_pylist()[1].values()) == {None}
    assert (result.untyped, result.downgrades) == (("none",), ())


def test_unsigned_integers_past_64_bits_land_as_wide_decimals() -> None:
    assert column(pa.array([5], pa.uint64())).schema["x"] == Column("x", "int64", 5)
    assert column(pa.array([5, 2**64 - 1], pa.uint64())).schema["x"] == Column("x", "decimal(38,0)", 2**64 - 1)
    with pytest.raises(StoreSchemaIncompatible, match="int64 and cannot take"):
        column(pa.array([5, 2**64 - 1], pa.uint64()), x="int64")


@pytest.mark.clause("run.record.schema-diff-shape")
@pytest.mark.parametrize(
    ("array", "landed", "source"),
    [
        (pa.array([{"b": 1, "a": [2]}]), '{"a":[2],"b":1}', "struct<b: int64, a: list<item: int64>>"),
        (pa.array([[1, None]]), "[1,null]", "list<item: int64>"),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())), '[["k",1]]', "map<string, int8>"),
        (pa.array([1], pa.time64("ns")), "00:00:00.000000001", "time64[ns]"),
    ],
)
def test_nested_columns_and_times_land_as_text_and_say_so(array: Any, landed: str, source: str) -> None:
    result = column(array)

    assert result.batch.column("x").to_pylist() == [landed]
    assert [(event.path, event.source) for event in result.downgrades] == [("x", source)]


def test_a_column_that_calls_itself_json_is_made_canonical() -> None:
    result = column(pa.array(['{"b": 1, "a": 2}', None], pa.json_()))

    assert (result.schema["x"].type, result.downgrades) == ("json", ())
    assert result.batch.column("x").to_pylist() == ['{"a":2,"b":1}', None]


def test_nanoseconds_are_cut_only_where_there_are_any() -> None:
    assert column(pa.array([1000], pa.timestamp("ns"))).downgrades == ()
    assert column(pa.array([1001], pa.timestamp("ns"))).downgrades[0].source == "timestamp[ns]"


NANOS = 1_700_000_000_123_456_789
INSTANT = '"2023-11-14T22:13:20.123456"'


@pytest.mark.clause("run.record.schema-diff-shape")
@pytest.mark.parametrize(
    ("array", "landed"),
    [
        (pa.array([[NANOS, None]], pa.list_(pa.timestamp("ns"))), f"[{INSTANT},null]"),
        (pa.array([[NANOS]], pa.large_list(pa.timestamp("ns"))), f"[{INSTANT}]"),
        (pa.array([[NANOS]], pa.list_(pa.timestamp("ns"), 1)), f"[{INSTANT}]"),
        (pa.array([{"at": NANOS, "n": "x"}], pa.struct([("at", pa.timestamp("ns")), ("n", pa.string())])),
         f'{{"at":{INSTANT},"n":"x"}}'),
        (pa.array([[("k", NANOS)]], pa.map_(pa.string(), pa.timestamp("ns"))), f'[["k",{INSTANT}]]'),
        (pa.array([[1001]], pa.list_(pa.time64("ns"))), '["00:00:00.000001"]'),
    ],
)  # fmt: skip
def test_nanoseconds_inside_nested_values_are_cut_and_said(array: Any, landed: str) -> None:
    result = column(array)

    assert result.batch.column("x").to_pylist() == [landed]
    assert ["digits behind the microsecond" in event.reason for event in result.downgrades] == [True]


def test_a_nested_instant_past_every_calendar_is_refused_by_name() -> None:
    with pytest.raises(StoreSchemaIncompatible, match=r"t\.x is json"):
        column(pa.array([[2**53]], pa.list_(pa.timestamp("ms"))))


def test_a_declared_type_converts_an_arrow_column_exactly() -> None:
    result = column(pa.array(["1.5", None]), x="decimal(9,2)")

    assert result.batch.column("x").to_pylist() == [Decimal("1.50"), None]
    with pytest.raises(StoreSchemaIncompatible, match=r"part.parquet, row 2"):
        column(pa.array(["1.5", "x"]), x="decimal(9,2)")
    assert column(pa.nulls(2), x="date").schema["x"].type == "date"


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (pa.array([1], pa.duration("s")), "duration"),
        (pa.array([Decimal(10**45)], pa.decimal256(60, 0)), "do not fit"),
        (pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers()), "UTF"),
        (pa.array([2**62], pa.timestamp("s")), "do not fit"),
    ],
)
def test_what_has_no_place_in_a_table_is_refused(array: Any, says: str) -> None:
    with pytest.raises(StoreSchemaIncompatible, match=says):
        column(array)


def test_a_name_that_stands_twice_is_refused() -> None:
    with pytest.raises(ColumnNameRefused, match="stands twice"):
        shaped(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]))


def test_a_table_without_columns_or_chunks_is_a_batch() -> None:
    assert shaped(pa.table({"x": [1, 2]}).select([])).batch.num_rows == 2
    assert shaped(pa.table({"x": pa.chunked_array([], pa.int8())})).batch.num_rows == 0


TYPED = st.one_of(
    st.tuples(st.just(pa.int64()), st.lists(st.none() | st.integers(-9, 9), min_size=1, max_size=20)),
    st.tuples(st.just(pa.bool_()), st.lists(st.none() | st.booleans(), min_size=1, max_size=20)),
    st.tuples(st.just(pa.string()), st.lists(st.none() | st.text(max_size=3), min_size=1, max_size=20)),
    st.tuples(st.just(pa.float64()), st.lists(st.none() | st.floats(-9, 9), min_size=1, max_size=20)),
    st.tuples(st.just(pa.binary()), st.lists(st.none() | st.binary(max_size=3), min_size=1, max_size=20)),
)


def dirty(type_: Any, values: list[Any], other: list[Any], *, cut: int) -> Any:
    """The array of `values` as a slice of a longer one, with what the longer one had left under the nulls."""
    filler = next((value for value in (*values, *other) if value is not None), None)
    full = [filler if value is None else value for value in values]
    array = pa.array([*other[:cut], *full, *other[cut:]], type=type_).slice(min(cut, len(other)), len(values))
    if filler is None or pa.types.is_string(type_) or pa.types.is_binary(type_):
        return pa.array([*other[:cut], *values, *other[cut:]], type=type_).slice(min(cut, len(other)), len(values))
    mask = pa.array([value is not None for value in [*other[:cut], *values, *other[cut:]]])
    whole = pa.array([*other[:cut], *full, *other[cut:]], type=type_)
    data = pa.array([filler if v is None else v for v in whole.to_pylist()], type=type_).buffers()[1]
    return pa.Array.from_buffers(type_, len(whole), [mask.buffers()[1], data]).slice(array.offset, len(values))


@pytest.mark.clause("run.journal.recorded-batch")
@given(TYPED, st.data())
def test_equal_columns_give_equal_bytes_wherever_they_were_cut_from(typed: Any, data: st.DataObject) -> None:
    type_, values = typed
    other = data.draw(st.lists(st.sampled_from(values), max_size=12))
    cut = data.draw(st.integers(0, len(other)))
    array = dirty(type_, values, other, cut=cut)
    assert array.to_pylist() == values

    cut_out, rebuilt = shaped(pa.RecordBatch.from_arrays([array], names=["x"])), column(pa.array(values, type=type_))
    from_rows = shape([{"x": value} for value in values], declared={}, table="t", place="p")

    assert encode(cut_out.batch, PullMeta()) == encode(rebuilt.batch, PullMeta()) == encode(from_rows.batch, PullMeta())
