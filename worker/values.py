"""Values of the binding protocol and what D1 makes of them, both ways. Pure: the standard library only.

D1 binds JavaScript numbers, so an integer has 53 bits and a list is taken for a BLOB. What cannot be bound or read
exactly is refused here, by name and place, before D1 could change it silently.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from typing import Any, Final, TypeVar

MAX_VALUE: Final = 2_000_000
"""Bytes of a text or BLOB that D1 stores."""

EXACT: Final = 2**53 - 1
"""The first integer that no longer crosses into JavaScript as a number."""

Bound = None | int | float | str | bytes

Content = TypeVar("Content", str, bytes)

_INTEGER = re.compile(r"-?[0-9]{1,19}")


class NotBindable(ValueError):
    """A parameter that D1 would refuse or change."""


class NotExact(ValueError):
    """A value that lost bits on its way out of D1."""


def bound(value: Any, *, now: int) -> Bound:
    """Return the parameter to bind for `value` of the protocol; `{"now": true}` is `now`, in milliseconds.

    An integer past 2^53 is bound as its digits: a STRICT INTEGER column and `CAST(? AS INTEGER)` take it exactly.
    Raise `NotBindable`.
    """
    match value:
        case None | bool():
            return value if value is None else int(value)
        case int():
            return _integer(value)
        case float():
            return _number(value)
        case str():
            return _text(value)
        case {"b64": str(text), **rest} if not rest:
            return _blob(text)
        case {"int": str(digits), **rest} if not rest:
            return _digits(digits)
        case {"now": True, **rest} if not rest:
            return now
    kinds = 'null, a number, a text, {"b64"}, {"int"} or {"now": true}'
    msg = f"a {type(value).__name__} ({repr(value)[:40]}) cannot be bound: a parameter is {kinds}"
    raise NotBindable(msg)


def answered(value: Any) -> Any:
    """Return what stands for the cell `value` of D1's answer, whose BLOBs are lists of numbers. Raise `NotExact`."""
    match value:
        case list():
            return {"b64": base64.b64encode(bytes(value)).decode()}
        case int() | float() if abs(value) > EXACT:
            msg = f"{value!r} may have lost its last bits: select numbers past 2^53 as text, CAST(… AS TEXT)"
            raise NotExact(msg)
        case int() if abs(value) == EXACT:
            return {"int": str(value)}
    return value


def _integer(value: int) -> int:
    if abs(value) >= EXACT:
        msg = f'the integer {value} is past 2^53: send {{"int": "{value}"}}'
        raise NotBindable(msg)
    return value


def _number(value: float) -> float:
    if not math.isfinite(value):
        msg = f"{value!r} is no number that D1 keeps: it would become NULL"
        raise NotBindable(msg)
    return value


def _text(value: str) -> str:
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        msg = f"the text {value[:40]!r} has a lone surrogate, which D1 would replace: send bytes"
        raise NotBindable(msg) from None
    return _measured(value, size)


def _blob(text: str) -> bytes:
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        msg = f'{{"b64": {text[:40]!r}}} is not base64'
        raise NotBindable(msg) from None
    return _measured(content, len(content))


def _digits(digits: str) -> int | str:
    if not _INTEGER.fullmatch(digits) or not -(2**63) <= int(digits) < 2**63:
        msg = f'{{"int": {digits[:40]!r}}} is not an integer of 64 bits'
        raise NotBindable(msg)
    number = int(digits)
    return number if abs(number) < EXACT else str(number)


def _measured(content: Content, size: int) -> Content:
    if size > MAX_VALUE:
        msg = f"the value has {size} bytes and D1 keeps {MAX_VALUE}: keep it as a blob"
        raise NotBindable(msg)
    return content
