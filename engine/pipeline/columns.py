"""One column of plain Python values, as Arrow: the type is what the values are, or what was declared.

Nothing is guessed from text and nothing is rounded. A column holds one kind of value: integers and floats go together
while float64 holds every one of the integers, objects and arrays go together as JSON text; any other mixture is refused
where it stands. Text that is not valid Unicode (a lone surrogate) is refused: no reader of the corpus could decode it.
A `Decimal` needs a declared type, for two pages could not agree on one; a naive datetime is taken as UTC. NaN inside a
nested value becomes null, as JSON has no other word for it.
"""

from __future__ import annotations

import datetime as dt
import numbers
import uuid
from dataclasses import dataclass
from decimal import Decimal
from types import NoneType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from engine.corpus.schema import EXACT_IN_FLOAT, Column
from engine.corpus.types import WIDE_INTEGER, WIDEST_DIGITS, arrow_type
from engine.errors import StoreSchemaIncompatible
from engine.pipeline import bulk, withheld
from engine.pipeline.convert import converter, finer_than_stored, json_text, spelling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

UNDECLARED: Final = "not declared"
"""What a column stands as that needs a declaration."""

_FEW: Final = 256
"""Integers that are looked through in Python sooner than Arrow's functions are imported."""
_SHOWN_CHARACTERS: Final = 60


@dataclass(frozen=True, slots=True)
class Downgrade:
    """A column that landed as less than its source had: what it was, what it is, why (run.record.schema-diff-shape)."""

    path: str
    source: str
    landed: str
    reason: str


@dataclass(frozen=True, slots=True)
class Landing:
    """A column as it lands: its array, its entry in the schema, and what was lost on the way."""

    array: pa.Array[Any]
    column: Column
    downgrade: Downgrade | None = None


@dataclass(frozen=True, slots=True)
class Site:
    """Where a column is read, as errors name it: its table, its name and the page. A protected one is not quoted."""

    table: str
    column: str
    place: str
    protected: bool = False

    def landing(self, array: pa.Array[Any], logical: str, downgrade: Downgrade | None = None) -> Landing:
        """The column as `array` of type `logical`."""
        return Landing(array, Column(self.column, logical, _largest(array, logical)), downgrade)

    def downgrade(self, source: str, landed: str, reason: str) -> Downgrade:
        """The event that says this column became less than `source`."""
        return Downgrade(self.column, source, landed, reason)

    def finer(self, source: str) -> Downgrade:
        """The event of instants that were finer than what is stored."""
        return self.downgrade(source, "timestamp", "digits behind the microsecond are cut")

    def quoted(self, value: Any, *, behind: str = "") -> str:
        """`value` as an error shows it, `behind` what says of which sort it is; of a protected one its type alone."""
        return f"{_kind(type(value))} ({withheld.COLUMN})" if self.protected else f"{behind}{shown(value)}"

    def reason(self, problem: Exception) -> str:
        """What a library says of a value that does not fit; it may quote it."""
        return withheld.COLUMN if self.protected else str(problem)

    def refusal(self, standing: str, found: str, *, row: int | None = None) -> StoreSchemaIncompatible:
        """The error of a column that is `standing` and met `found`, at `row` (counted from 0) where that is known."""
        place = self.place if row is None else f"{self.place}, row {row + 1}"
        return StoreSchemaIncompatible(
            table=self.table, column=self.column, standing=standing, found=found, place=place
        )


def land(values: Sequence[Any], *, logical: str | None, site: Site) -> Landing | None:
    """Land `values` as the declared type `logical`, each exactly, or without one as what they are.

    None when all are null and nothing is declared. Raise `StoreSchemaIncompatible` at the first value that is not of
    the declared type, or not of a kind with those before it.
    """
    return _inferred(values, site=site) if logical is None else _declared(values, logical=logical, site=site)


def shown(value: Any) -> str:
    """`value` as an error quotes it, shortened; a float by the digits it was written with."""
    try:
        text = spelling(value) if isinstance(value, float) else repr(value)
    except (RecursionError, ValueError):
        return f"a value of type {type(value).__name__} that is too deep or too long to be written out"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _inferred(values: Sequence[Any], *, site: Site) -> Landing | None:
    kinds = _kinds(values)
    if not kinds:
        return None
    for together, land_as in _LANDINGS:
        if kinds <= together:
            return land_as(values, site)
    raise _mixture(values, site=site)


def _declared(values: Sequence[Any], *, logical: str, site: Site) -> Landing:
    kinds = _kinds(values)
    if kinds == _AS_THEY_ARE.get(logical):
        return site.landing(_array(values, logical, site=site), logical)
    if kinds == {"string"} or (kinds == {"float"} and logical.startswith("decimal")):
        texts = values if kinds == {"string"} else [None if value is None else spelling(value) for value in values]
        array = bulk.converted(texts, logical)
        if array is not None:
            return site.landing(array, logical)
    return _one_by_one(values, logical=logical, site=site)


def _one_by_one(values: Sequence[Any], *, logical: str, site: Site) -> Landing:
    convert, converted = converter(logical), []
    for row, value in enumerate(values):
        try:
            converted.append(None if value is None else convert(value))
        except (ValueError, TypeError, ArithmeticError, RecursionError):
            raise site.refusal(logical, site.quoted(value), row=row) from None
    finer = logical == "timestamp" and any(map(finer_than_stored, values))
    return site.landing(_array(converted, logical, site=site), logical, site.finer("RFC 3339") if finer else None)


def _kinds(values: Sequence[Any]) -> set[str]:
    return {_kind(found) for found in set(map(type, values)) if found is not NoneType}


def _kind(found: type) -> str:
    """The kind of a Python type; its own name where it has no place in a table."""
    kind = _KINDS.get(found)
    if kind is None:
        kind = next((kind for known, kind in _KINDS.items() if issubclass(found, known)), found.__name__)
        kind = "integer" if kind == found.__name__ and issubclass(found, numbers.Integral) else kind
    return kind


def _array(values: Sequence[Any], logical: str, *, site: Site) -> pa.Array[Any]:
    try:
        return pa.array(values, type=arrow_type(logical))
    except UnicodeEncodeError:
        row, value = next((row, value) for row, value in enumerate(values) if not _valid(value))
        raise site.refusal(logical, site.quoted(value, behind="text that is not valid Unicode: "), row=row) from None


def _as(logical: str) -> Callable[[Sequence[Any], Site], Landing]:
    return lambda values, site: site.landing(_array(values, logical, site=site), logical)


def _integers(values: Sequence[Any], site: Site) -> Landing:
    try:
        return site.landing(pa.array(values, type=pa.int64()), "int64")
    except (OverflowError, pa.ArrowInvalid):
        return _wide_integers(values, site)


def _wide_integers(values: Sequence[Any], site: Site) -> Landing:
    for row, value in enumerate(values):
        if value is not None and abs(int(value)) >= 10**WIDEST_DIGITS:
            raise site.refusal(WIDE_INTEGER, site.quoted(value, behind="the integer "), row=row)
    exact = [None if value is None else Decimal(int(value)) for value in values]
    return site.landing(pa.array(exact, type=arrow_type(WIDE_INTEGER)), WIDE_INTEGER)


def _floats(values: Sequence[Any], site: Site) -> Landing:
    """Floats with integers among them: each integer must be one that float64 holds."""
    for row, value in enumerate(values):
        if isinstance(value, numbers.Integral) and abs(int(value)) > EXACT_IN_FLOAT:
            found = f"{site.quoted(value, behind='the integer ')}, which no float64 holds"
            raise site.refusal("float64", found, row=row)
    return site.landing(pa.array(values, type=pa.float64()), "float64")


def _nested(values: Sequence[Any], site: Site) -> Landing:
    kinds = sorted({_kind(type(value)) for value in values if value is not None})
    texts = []
    for row, value in enumerate(values):
        try:
            texts.append(None if value is None else json_text(value))
        except (ValueError, TypeError, RecursionError) as problem:
            raise site.refusal("json", f"{site.quoted(value)}: {site.reason(problem)}", row=row) from None
    event = site.downgrade(" or ".join(kinds), "json", "nested values land as JSON text")
    return site.landing(pa.array(texts, type=pa.string()), "json", event)


def _texts(values: Sequence[Any], site: Site) -> Landing:
    kind = next(_kind(type(value)) for value in values if value is not None)
    texts = [None if value is None else str(value) for value in values]
    event = site.downgrade(kind, "string", f"a {kind} lands as its text")
    return site.landing(pa.array(texts, type=pa.string()), "string", event)


def _mixture(values: Sequence[Any], *, site: Site) -> StoreSchemaIncompatible:
    """The error that names the first value of another kind than the ones before it, or of no kind at all."""
    before: set[str] = set()
    for row, value in enumerate(values):
        kind = _kind(type(value))
        if value is None or any({*before, kind} <= together for together, _ in _LANDINGS):
            before |= {kind} - {"null"}
            continue
        standing = " and ".join(sorted(before)) or UNDECLARED
        return site.refusal(standing, site.quoted(value, behind=f"{kind} "), row=row)
    raise AssertionError("a column of one kind is no mixture")


def _largest(array: pa.Array[Any], logical: str) -> int | None:
    if logical not in {"int64", WIDE_INTEGER}:
        return None
    if len(array) <= _FEW:
        return max((abs(int(value)) for value in array.to_pylist() if value is not None), default=0)
    import pyarrow.compute as pc  # noqa: PLC0415 - 40 ms that a poll with nothing new need not pay

    ends = pc.min_max(array)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return 0 if low is None else max(abs(int(low)), abs(int(high)))


def _valid(value: Any) -> bool:
    try:
        str(value).encode()
    except UnicodeEncodeError:
        return False
    return True


_KINDS: Final[dict[type, str]] = {
    NoneType: "null",
    bool: "boolean",
    int: "integer",
    float: "float",
    str: "string",
    dict: "object",
    list: "array",
    tuple: "array",
    bytes: "bytes",
    dt.datetime: "instant",
    dt.date: "date",
    dt.time: "time",
    uuid.UUID: "uuid",
    Decimal: "decimal",
}
_LANDINGS: Final[tuple[tuple[frozenset[str], Callable[[Sequence[Any], Site], Landing]], ...]] = (
    (frozenset({"string"}), _as("string")),
    (frozenset({"integer"}), _integers),
    (frozenset({"float"}), _as("float64")),
    (frozenset({"integer", "float"}), _floats),
    (frozenset({"boolean"}), _as("bool")),
    (frozenset({"object", "array"}), _nested),
    (frozenset({"instant"}), lambda values, site: _declared(values, logical="timestamp", site=site)),
    (frozenset({"date"}), _as("date")),
    (frozenset({"bytes"}), _as("bytes")),
    (frozenset({"time"}), _texts),
    (frozenset({"uuid"}), _texts),
)
_AS_THEY_ARE: Final = {
    "string": {"string"},
    "float64": {"float"},
    "bool": {"boolean"},
    "date": {"date"},
    "bytes": {"bytes"},
}
