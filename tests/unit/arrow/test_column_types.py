from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from engine.corpus.types import arrow_type, folded_type, logical_type


@pytest.mark.parametrize(
    ("spelling", "arrow"),
    [
        ("string", pa.string()),
        ("int64", pa.int64()),
        ("float64", pa.float64()),
        ("decimal(18,4)", pa.decimal128(18, 4)),
        ("bool", pa.bool_()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("bytes", pa.binary()),
        ("json", pa.string()),
    ],
)
def test_every_logical_type_has_one_arrow_type(spelling: str, arrow: pa.DataType) -> None:
    assert logical_type(spelling) == spelling
    assert arrow_type(spelling) == arrow


def test_a_decimal_has_one_canonical_spelling() -> None:
    assert logical_type("decimal( 18, 04 )") == "decimal(18,4)"


@pytest.mark.parametrize("spelling", ["text", "", "INT64", "decimal", "decimal(10)", "decimal(10,-2)", "decimal(1٢,0)"])
def test_another_spelling_is_refused_with_what_is_allowed(spelling: str) -> None:
    with pytest.raises(ValueError, match=r"allowed: string, int64, float64, decimal\(p,s\), bool, date, timestamp"):
        logical_type(spelling)


@pytest.mark.parametrize("spelling", ["decimal(39,0)", "decimal(0,0)", "decimal(3,4)"])
def test_a_decimal_beyond_38_digits_is_refused(spelling: str) -> None:
    with pytest.raises(ValueError, match="1 to 38 digits"):
        arrow_type(spelling)


@pytest.mark.parametrize(
    ("arrow", "logical"),
    [
        (pa.int8(), "int64"),
        (pa.uint64(), "int64"),
        (pa.float16(), "float64"),
        (pa.float32(), "float64"),
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.dictionary(pa.int8(), pa.large_string()), "string"),
        (pa.run_end_encoded(pa.int32(), pa.date64()), "date"),
        (pa.binary(4), "bytes"),
        (pa.timestamp("ns"), "timestamp"),
        (pa.timestamp("s", tz="Europe/Paris"), "timestamp"),
        (pa.time64("us"), "string"),
        (pa.decimal32(5, 2), "decimal(5,2)"),
        (pa.decimal128(5, -2), "decimal(7,0)"),
        (pa.decimal256(50, 3), "decimal(38,3)"),
        (pa.list_(pa.int8()), "json"),
        (pa.struct([("a", pa.int8())]), "json"),
        (pa.map_(pa.string(), pa.int8()), "json"),
        (pa.json_(), "json"),
        (pa.uuid(), "bytes"),
        (pa.null(), None),
    ],
)
def test_arrow_types_fold_into_logical_ones(arrow: Any, logical: str | None) -> None:
    assert folded_type(arrow) == logical


@pytest.mark.parametrize("arrow", [pa.duration("s"), pa.month_day_nano_interval(), pa.decimal256(60, 40)])
def test_an_arrow_type_without_a_place_is_named(arrow: Any) -> None:
    with pytest.raises(ValueError, match=", which has no column type: "):
        folded_type(arrow)
