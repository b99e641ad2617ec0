"""One column that arrives as Arrow, folded into the corpus's types without a value in Python where that can be.

What folds into which type is said in `engine.corpus.types`. The result is compact: one array that owns its buffers,
begins at 0 and holds zeros under its nulls, so that equal columns give equal bytes wherever they were cut from.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from engine.corpus.types import WIDE_INTEGER, arrow_type, folded_type
from engine.errors import ColumnNameRefused
from engine.pipeline import columns

if TYPE_CHECKING:
    from engine.pipeline.columns import Landing, Site

    Column = pa.Array[Any] | pa.ChunkedArray[Any]


_NULL: Final = pa.scalar(None, pa.int64())
_CUT: Final = "nested values land as JSON text, and digits behind the microsecond are cut"


def names(rows: pa.Table | pa.RecordBatch, *, table: str, place: str) -> tuple[str, ...]:
    """The column names, each once. Raise `ColumnNameRefused` for one that stands twice."""
    found = rows.schema.names
    for position, name in enumerate(found):
        if name in found[:position]:
            raise ColumnNameRefused(table=table, column=name, reason="it stands twice", place=place)
    return tuple(found)


def land(values: Column, *, logical: str | None, site: Site) -> Landing | None:
    """Land an Arrow column as the declared type `logical`, or without one as what its own type folds into.

    None when all are null and nothing is declared. Raise `StoreSchemaIncompatible` for a type without a place in the
    corpus and for values that do not fit.
    """
    array = _plain(values)
    if logical is None and array.null_count == len(array):
        return None
    try:
        own = folded_type(values.type)
    except ValueError as problem:
        raise site.refusal(logical or columns.UNDECLARED, str(problem)) from None
    if own is None or own == "json":
        return _through_python(array, source=values.type, logical=logical, site=site)
    landing = _folded(array, own, site=site)
    if logical in {None, landing.column.type}:
        return landing
    return columns.land(landing.array.to_pylist(), logical=logical, site=site)


def compact(array: pa.Array[Any]) -> pa.Array[Any]:
    """`array` in buffers no longer than itself, from offset 0, with zeros under its nulls and behind its last bit."""
    tight = not array.offset and array.nbytes == array.get_total_buffer_size()
    if tight and not array.null_count and not pa.types.is_boolean(array.type):
        return array
    valid = array.is_valid()
    if not array.null_count:
        return array.take(pc.indices_nonzero(valid))
    rank = pc.subtract(pc.cumulative_sum(valid.cast(pa.int64())), 1)
    return array.drop_null().take(pc.if_else(valid, rank, _NULL))


def _plain(values: Column) -> Any:
    """One array of what stands under chunks, dictionaries, runs and extension types."""
    array: Any = values
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], type=array.type)
    while True:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        elif pa.types.is_run_end_encoded(array.type):
            array = pc.call_function("run_end_decode", [array])
        elif isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        else:
            return array


def _through_python(array: pa.Array[Any], *, source: pa.DataType, logical: str | None, site: Site) -> Landing | None:
    """Land nested values as JSON text; JSON text that says so of itself needs no event."""
    values, cut = _values(array, logical=logical, site=site)
    if isinstance(source, pa.BaseExtensionType):
        return columns.land(values, logical=logical or "json", site=site)
    landing = columns.land(values, logical=logical, site=site)
    if landing and cut:
        return replace(landing, downgrade=site.downgrade(str(source), landing.column.type, _CUT))
    if landing and landing.downgrade:
        return replace(landing, downgrade=replace(landing.downgrade, source=str(source)))
    return landing


def _values(array: pa.Array[Any], *, logical: str | None, site: Site) -> tuple[list[Any], bool]:
    """The values of a nested array in Python, and whether instants in them had to be cut for that."""
    try:
        return array.to_pylist(), False
    except ValueError:  # nanoseconds, which Python's instants do not have
        return array.cast(_coarser(array.type), safe=False).to_pylist(), True
    except OverflowError as problem:
        raise site.refusal(logical or "json", f"values of {array.type}: {site.reason(problem)}") from None


def _coarser(kind: Any) -> Any:
    """The nested type `kind` with microseconds where it has nanoseconds."""
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.timestamp("us", tz=kind.tz)
    if pa.types.is_time64(kind):
        return pa.time64("us")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_coarser(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_coarser(kind.key_type), _coarser(kind.item_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_coarser(kind.value_type), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(_coarser(kind.value_type))
    return pa.list_(_coarser(kind.value_type)) if pa.types.is_list(kind) else kind


def _folded(array: pa.Array[Any], own: str, *, site: Site) -> Landing:
    source, event = array.type, None
    try:
        folded = array if source == arrow_type(own) else array.cast(arrow_type(own))
        if own == "string":
            folded.validate(full=True)
    except pa.ArrowInvalid as problem:
        if pa.types.is_uint64(source):
            folded, own = array.cast(arrow_type(WIDE_INTEGER)), WIDE_INTEGER
        elif own == "timestamp" and source.unit == "ns":
            folded, event = array.cast(arrow_type(own), safe=False), site.finer(str(source))
        else:
            raise site.refusal(own, f"values of {source} that do not fit: {site.reason(problem)}") from None
    if pa.types.is_time(source):
        event = site.downgrade(str(source), own, "a time of day lands as its text")
    return site.landing(compact(folded), own, event)
