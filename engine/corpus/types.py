"""The logical types a column can have, and how Arrow's many types fold into them.

A logical type is its spelling: `string`, `int64`, `float64`, `decimal(p,s)`, `bool`, `date`, `timestamp` (in
microseconds, UTC), `bytes`, `json` (canonical JSON text, told from a string by the schema alone). Arrow types fold so
that values stay what they are: narrow numbers widen, dictionaries and run-length columns decode, extension types become
their storage, a timestamp without a zone is taken as UTC. Three landings are not what the source had, and their columns
report a downgrade: nested columns become `json`, a time of day becomes its ISO text, a timestamp finer than a
microsecond is cut. Durations and intervals are refused: which unit they should land in is the source's to say.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import pyarrow as pa

WIDEST_DIGITS: Final = 38
"""Digits of the widest decimal."""

WIDE_INTEGER: Final = f"decimal({WIDEST_DIGITS},0)"
"""What integers beyond 64 bits land as."""

_PLAIN: Final[dict[str, pa.DataType]] = {
    "string": pa.string(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "bytes": pa.binary(),
    "json": pa.string(),
}
_ALLOWED: Final = "string, int64, float64, decimal(p,s), bool, date, timestamp, bytes or json"
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)", re.ASCII)
_DECIMALS: Final = (pa.Decimal32Type, pa.Decimal64Type, pa.Decimal128Type, pa.Decimal256Type)
_FOLDS: Final = (
    (pa.types.is_boolean, "bool"),
    (pa.types.is_integer, "int64"),
    (pa.types.is_floating, "float64"),
    (pa.types.is_date, "date"),
    (pa.types.is_timestamp, "timestamp"),
    (pa.types.is_time, "string"),
    (lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t), "string"),
    (lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t), "bytes"),
    (pa.types.is_fixed_size_binary, "bytes"),
    (pa.types.is_nested, "json"),
)


def logical_type(spelling: str) -> str:
    """`spelling` in its one canonical form. Raise `ValueError` saying what is allowed."""
    if spelling in _PLAIN:
        return spelling
    digits = decimal_digits(spelling)
    if digits is None:
        raise ValueError(f"{spelling!r} is no column type; allowed: {_ALLOWED}")
    precision, scale = digits
    if not (1 <= precision <= WIDEST_DIGITS and scale <= precision):
        raise ValueError(
            f"{spelling!r}: a decimal has 1 to {WIDEST_DIGITS} digits, and at most as many after the point"
        )
    return f"decimal({precision},{scale})"


def decimal_digits(spelling: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal's spelling, None for every other type."""
    found = _DECIMAL.fullmatch(spelling)
    return (int(found[1]), int(found[2])) if found else None


@cache
def arrow_type(logical: str) -> pa.DataType:
    """The Arrow type a logical type is stored as. Raise `ValueError` for what `logical_type` refuses."""
    digits = decimal_digits(logical_type(logical))
    return pa.decimal128(*digits) if digits else _PLAIN[logical]


def folded_type(arrow: pa.DataType) -> str | None:
    """The logical type a column of Arrow type `arrow` lands as; None for the null type, which stays untyped.

    An unsigned 64-bit column is `int64` here; one whose values pass it lands as decimal(38,0). Raise `ValueError`
    naming a type that has no place.
    """
    if pa.types.is_null(arrow):
        return None
    if pa.types.is_dictionary(arrow) or pa.types.is_run_end_encoded(arrow):
        return folded_type(arrow.value_type)
    if isinstance(arrow, pa.BaseExtensionType):
        return "json" if arrow.extension_name == "arrow.json" else folded_type(arrow.storage_type)
    if isinstance(arrow, _DECIMALS):
        return _folded_decimal(arrow.precision, arrow.scale)
    for holds, logical in _FOLDS:
        if holds(arrow):
            return logical
    raise ValueError(f"the Arrow type {arrow}, which has no column type: cast it in the source to {_ALLOWED}")


def _folded_decimal(precision: int, scale: int) -> str:
    """A decimal with digits left of a negative scale written out; wider ones land where their values fit 38 digits."""
    if scale < 0:
        precision, scale = precision - scale, 0
    if scale > WIDEST_DIGITS:
        raise ValueError(
            f"a decimal with {scale} digits behind the point, which has no column type: at most {WIDEST_DIGITS}"
        )
    return f"decimal({min(max(precision, scale), WIDEST_DIGITS)},{scale})"
