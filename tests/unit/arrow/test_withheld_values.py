"""Errors about protected columns name place, column and types, and none of the values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from engine.errors import Permanent, RateLimited, SourceShape, StoreSchemaIncompatible, Transient
from engine.pipeline import withheld
from engine.pipeline.shape import shape
from engine.pipeline.sources.answers import document, failure, kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.pipeline.declaration import Treatment

RAW = "4111222233334444"
HASHED: Mapping[str, Treatment] = {"card": "hash"}


class _Odd:
    def __repr__(self) -> str:
        return RAW


class _Zone(dt.tzinfo):
    def utcoffset(self, _: dt.datetime | None) -> dt.timedelta:
        raise LookupError(RAW)

    dst = utcoffset

    def tzname(self, _: dt.datetime | None) -> str:
        return RAW


TROUBLE: dict[str, tuple[Any, dict[str, str]]] = {
    "a mixture": ([1, RAW], {}),
    "a value that is not of the declared type": ([f"x{RAW}"], {"card": "int64"}),
    "a value that is no number": ([1, f"x{RAW}"], {"card": "decimal(9,2)"}),
    "text that is not Unicode": ([f"{RAW}\ud800"], {}),
    "an integer wider than any column": ([int(RAW) * 10**30], {}),
    "an integer no float holds": ([1.5, int(RAW + "0")], {}),
    "an object of no kind": ([_Odd()], {}),
    "a nested value JSON lacks": ([{"a": _Odd()}], {}),
    "an instant whose zone fails to be read": ([dt.datetime(2026, 1, 1, tzinfo=_Zone())], {}),
    "a decimal out of range": ([Decimal(RAW)], {"card": "decimal(4,0)"}),
    "an instant that is none": ([f"2026-99-99T{RAW}"], {"card": "timestamp"}),
    "a date beyond the calendar": ([dt.date.min, RAW], {}),
}


@pytest.mark.parametrize("trouble", TROUBLE)
def test_no_error_about_a_protected_column_quotes_it(trouble: str) -> None:
    values, declared = TROUBLE[trouble]
    rows = [{"card": value} for value in values]

    with pytest.raises(StoreSchemaIncompatible) as refusal:
        shape(rows, declared=declared, table="orders", place="orders, pull 3", protected=HASHED)

    said = str(refusal.value) + repr(refusal.value.facts)
    assert RAW not in said
    assert withheld.COLUMN in said
    assert "orders.card" in said
    assert "orders, pull 3" in said


def test_an_arrow_column_that_does_not_fit_is_not_quoted_either() -> None:
    rows = pa.table({"card": pa.array([int(RAW) * 100], pa.decimal256(76, 0)).cast(pa.decimal256(76, 2))})
    wide = pa.table({"card": pa.array([Decimal(RAW) * 10**40], pa.decimal256(76, 0))})

    assert shape(rows, declared={}, table="t", place="p", protected=HASHED).batch.num_rows == 1
    with pytest.raises(StoreSchemaIncompatible) as refusal:
        shape(wide, declared={}, table="t", place="p", protected=HASHED)

    assert RAW not in str(refusal.value)
    assert withheld.COLUMN in str(refusal.value)


def test_an_unprotected_column_beside_it_is_quoted_as_ever() -> None:
    with pytest.raises(StoreSchemaIncompatible, match="string 'text'"):
        shape([{"card": "a", "n": 1}, {"card": "b", "n": "text"}], declared={}, table="t", place="p", protected=HASHED)


def test_a_row_that_is_no_object_is_not_quoted_where_columns_are_protected() -> None:
    with pytest.raises(SourceShape) as refusal:
        shape([RAW], declared={}, table="t", place="p", protected=HASHED)

    assert RAW not in str(refusal.value)
    assert withheld.CONTENT in str(refusal.value)


def test_a_source_quotes_nothing_of_what_it_reads_for_a_table_with_protected_columns() -> None:
    with withheld.reading_protected():
        answered = failure(422, "page 2", text=f"bad card {RAW}")
        with pytest.raises(SourceShape) as broken:
            document(f'{{"card": {RAW}'.encode(), "page 2", content_type="text/plain", quote=bytes.decode)
        stood = kind(RAW)

    assert RAW not in f"{answered} {broken.value} {stood}"
    assert "page 2 answered 422" in str(answered)
    assert RAW in str(failure(422, "page 2", text=RAW))


def test_a_foreign_error_keeps_its_type_and_its_tag_and_loses_its_message() -> None:
    class ReadTimeout(Exception):
        pass

    ReadTimeout.__module__ = "httpx"
    transport = type("TransportError", (Exception,), {"__module__": "httpx"})

    with pytest.raises(Permanent) as permanent, withheld.reading_protected():
        raise KeyError(RAW)
    with pytest.raises(Transient) as transient, withheld.reading_protected():
        raise transport(RAW)
    with pytest.raises(RateLimited, match="as it is"), withheld.reading_protected():
        raise RateLimited("as it is", wait_ms=5)

    assert RAW not in f"{permanent.value} {transient.value}"
    assert "KeyError" in str(permanent.value)
    assert not withheld.withholding()
