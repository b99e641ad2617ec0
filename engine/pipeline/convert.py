"""From one value to a declared type, exactly or not at all.

Each converter takes a value that is not null and returns what Arrow stores, or raises `ValueError` or an arithmetic
error when the value is not of that type: nothing is rounded, cut or guessed. The one thing that is cut are the digits
of an instant behind the microsecond, which `finer_than_stored` finds so that they can be reported.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import numbers
import re
from collections.abc import Mapping
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from engine.corpus.schema import EXACT_IN_FLOAT
from engine.corpus.types import decimal_digits

if TYPE_CHECKING:
    from collections.abc import Callable

_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE: Final = re.compile(r"nan|[+-]?inf(?:inity)?", re.ASCII | re.IGNORECASE)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_INSTANT: Final = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_BOOLS: Final = {"true": True, "false": False}


class Spelled(float):
    """A float that remembers how it was written, for tables that declare decimals.

    Decode their JSON with `msgspec.json.Decoder(float_hook=Spelled)`: a plain float has lost digits past the 17th.
    """

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Self:
        """The float that `text` spells, with its spelling. Raise `ValueError` for one that no float is as large as."""
        number = super().__new__(cls, text)
        if math.isinf(number):
            raise ValueError("the number is out of range")
        number.text = text
        return number


def converter(logical: str) -> Callable[[Any], Any]:
    """The converter to the logical type `logical`."""
    digits = decimal_digits(logical)
    return _to_decimal(*digits) if digits else _CONVERTERS[logical]


def spelling(number: float) -> str:
    """The digits of a float: those it was written with where it knows, else the fewest that name it."""
    return number.text if isinstance(number, Spelled) else float.__repr__(number)


def finer_than_stored(value: Any) -> bool:
    """Whether an instant's text has digits behind the microsecond other than zeros."""
    found = _INSTANT.fullmatch(value) if isinstance(value, str) else None
    return bool(found and found[3] and found[3][6:].strip("0"))


def json_text(value: Any) -> str:
    """`value` as canonical JSON text. Raise `ValueError` or `TypeError` for what JSON cannot say."""
    return _encode(value).decode()


def _as_json(value: Any) -> Any:
    """What JSON has for a value its encoder does not know: plain floats and mappings for kinds of them."""
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no place in JSON")


_encode: Final = msgspec.json.Encoder(order="sorted", enc_hook=_as_json).encode


def _to_string(value: Any) -> str:
    """Text as it is; instants and the like as the text JSON has for them, any other value as its JSON text."""
    if isinstance(value, str):
        return value
    text = json_text(value)
    return str(msgspec.json.decode(text)) if text.startswith('"') else text


def _to_int64(value: Any) -> int:
    """Integers, their spellings, and floats that are integers."""
    if isinstance(value, bool) or not isinstance(value, str | float | Decimal | numbers.Integral):
        raise TypeError("not a number")
    if isinstance(value, str) and not _INTEGER.fullmatch(value):
        raise ValueError("not the spelling of an integer")
    number = int(value)
    if (not isinstance(value, str) and number != value) or not -(1 << 63) <= number < 1 << 63:
        raise ValueError("not an integer of 64 bits")
    return number


def _to_float64(value: Any) -> float:
    """Floats, numbers and their spellings; an integer only where float64 holds it."""
    if isinstance(value, float):
        return value
    if isinstance(value, bool) or not isinstance(value, str | Decimal | numbers.Integral):
        raise TypeError("not a number")
    if isinstance(value, str) and not (_NUMBER.fullmatch(value) or _NOT_FINITE.fullmatch(value)):
        raise ValueError("not the spelling of a number")
    if isinstance(value, numbers.Integral) or (isinstance(value, str) and _INTEGER.fullmatch(value)):
        value = int(value)
        if abs(value) > EXACT_IN_FLOAT:
            raise ValueError("no float64 holds this integer")
    number = float(value)
    if math.isinf(number) and not _NOT_FINITE.fullmatch(str(value)):
        raise ValueError("no float64 is as large as this number")
    return number


def _to_decimal(precision: int, scale: int) -> Callable[[Any], Decimal]:
    """Numbers and their spellings, with no digit more than `precision` and `scale` have room for."""
    exact = Context(prec=precision, traps=[Inexact, InvalidOperation])
    step = Decimal(1).scaleb(-scale)

    def convert(value: Any) -> Decimal:
        if isinstance(value, float):
            value = spelling(value)
        if isinstance(value, bool) or not isinstance(value, str | numbers.Integral | Decimal):
            raise TypeError("not a number")
        if isinstance(value, str) and not _NUMBER.fullmatch(value):
            raise ValueError("not the spelling of a number")
        number = Decimal(value if isinstance(value, str | Decimal) else int(value))
        if not number.is_finite():
            raise ValueError("not a finite number")
        return number.quantize(step, context=exact)

    return convert


def _to_bool(value: Any) -> bool:
    if isinstance(value, str):
        value = _BOOLS.get(value.lower(), value)
    if not isinstance(value, bool):
        raise TypeError("not a boolean")
    return value


def _to_date(value: Any) -> dt.date:
    if isinstance(value, str) and _DATE.fullmatch(value):
        return dt.date.fromisoformat(value)
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    raise ValueError("not a date YYYY-MM-DD")


def _to_timestamp(value: Any) -> dt.datetime:
    """An RFC 3339 instant of any offset, in UTC; a naive datetime is taken as UTC."""
    if isinstance(value, str):
        found = _INSTANT.fullmatch(value)
        if not found:
            raise ValueError("not an RFC 3339 instant with an offset")
        day, time, fraction, offset = found.groups()
        value = dt.datetime.fromisoformat(f"{day}T{time}.{(fraction or '0')[:6]:0<6}{offset.upper()}")
    if not isinstance(value, dt.datetime):
        raise TypeError("not an instant")
    return value.astimezone(dt.UTC) if value.tzinfo else value.replace(tzinfo=dt.UTC)


def _to_bytes(value: Any) -> bytes:
    """Bytes as they are, text as the base64 of them."""
    return base64.b64decode(value, validate=True) if isinstance(value, str) else bytes(memoryview(value))


def _to_json(value: Any) -> str:
    """The JSON text of any value; text that is itself a JSON object or array is taken for that."""
    if isinstance(value, str) and value.lstrip()[:1] in {"{", "["}:
        try:
            return json_text(msgspec.json.decode(value))
        except msgspec.DecodeError:
            return json_text(value)
    return json_text(value)


_CONVERTERS: Final[dict[str, Callable[[Any], Any]]] = {
    "string": _to_string,
    "int64": _to_int64,
    "float64": _to_float64,
    "bool": _to_bool,
    "date": _to_date,
    "timestamp": _to_timestamp,
    "bytes": _to_bytes,
    "json": _to_json,
}
