"""The canonical text of a column's values: what a digest is made of.

A value has one text however its page was typed, for a page border must not decide a digest: 5 is `5` as an integer, as
a float among others and as a decimal with any number of zeros behind the point. Numbers are written out in full and
without exponent, instants in UTC with `Z` and no trailing zeros, bytes in base64, nested values as canonical JSON text.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


def texts(array: pa.Array[Any], logical: str) -> list[str | None]:
    """The text of each value of a column of type `logical`; null stays None."""
    values = array.to_pylist()
    spell = _SPELLINGS.get(logical, _decimal if logical.startswith("decimal") else None)
    if spell is None:
        return values
    return [None if value is None else spell(value) for value in values]


def _decimal(number: Decimal) -> str:
    text = format(number, "f")
    short = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if short == "-0" else short


def _float(number: float) -> str:
    return _decimal(Decimal(float.__repr__(number))) if math.isfinite(number) else str(number)


def _bool(value: bool) -> str:  # noqa: FBT001 - the value itself, not a flag
    return "true" if value else "false"


def _instant(moment: dt.datetime) -> str:
    text = moment.astimezone(dt.UTC).replace(tzinfo=None).isoformat()
    return f"{text.rstrip('0') if '.' in text else text}Z"


def _bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


_SPELLINGS: Final[dict[str, Callable[[Any], str]]] = {
    "int64": str,
    "float64": _float,
    "bool": _bool,
    "date": dt.date.isoformat,
    "timestamp": _instant,
    "bytes": _bytes,
}
