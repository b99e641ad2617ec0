"""The declared types a whole column of text converts to at once.

Only plain spellings go this way: each column is first held against a pattern within which Arrow's parser and
`engine.pipeline.convert` agree to the last digit. A column with anything else in it converts value by value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from engine.corpus.types import arrow_type, decimal_digits

if TYPE_CHECKING:
    from collections.abc import Sequence

_PATTERNS: Final = {
    "int64": r"^-?\d{1,18}\z",
    "float64": r"^-?\d{1,15}(\.\d{1,15})?\z",
    "date": r"^[1-9]\d{3}-\d\d-\d\d\z",
    "timestamp": r"^[1-8]\d{3}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-][01]\d:[0-5]\d)\z",
}


def converted(texts: Sequence[str | None], logical: str) -> pa.Array[Any] | None:
    """`texts` as the type `logical`, or None where they are not all plainly spelled."""
    pattern = _decimal_pattern(logical) or _PATTERNS.get(logical)
    if pattern is None:
        return None
    import pyarrow.compute as pc  # noqa: PLC0415 - 40 ms that a table without declared types need not pay

    try:
        array = pa.array(texts, type=pa.string())
        plain = pc.all(pc.match_substring_regex(array, pattern))
        return array.cast(arrow_type(logical)) if plain.as_py() is not False else None
    except (pa.ArrowInvalid, UnicodeEncodeError):
        return None


def _decimal_pattern(logical: str) -> str | None:
    digits = decimal_digits(logical)
    if digits is None or digits[0] == digits[1]:
        return None
    precision, scale = digits
    return rf"^-?\d{{1,{precision - scale}}}(\.\d{{1,{scale}}})?\z" if scale else rf"^-?\d{{1,{precision}}}\z"
