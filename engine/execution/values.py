"""Step values and inputs as bytes: JSON text, or bytes behind a mark no JSON text begins with."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

import msgspec

from engine.errors import ValueUnsupported
from engine.shapes import canonical_json

_BYTES: Final = b"\x00"
_NULL: Final = b"null"
_NO_INPUT: Final = hashlib.sha256(_NULL).hexdigest()
_TEXT: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def encode(value: Any, *, step: str) -> bytes:
    """`value` as it is recorded. Raise `ValueUnsupported` naming the step for what is neither JSON nor bytes."""
    if isinstance(value, bytes):
        return _BYTES + value
    text = plain(value)
    if text is None:
        # A foreign value or a tuple, a lone surrogate, a subclass of a JSON type: slower, and as faithful.
        _refuse_foreign(value, step=step, place="it")
        text = _TEXT.encode(value).encode("utf-8", "surrogatepass")
    return text


def plain(value: Any) -> bytes | None:
    """`value` as JSON text that reads as the same value again, or None where only a look at each part of it tells."""
    if value is None:
        return _NULL
    try:
        text = msgspec.json.encode(value)
        return text if msgspec.json.decode(text) == value else None
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError):
        return None


def decode(recorded: bytes) -> Any:
    """The value behind recorded bytes."""
    if recorded == _NULL:
        return None
    if recorded[:1] == _BYTES:
        return recorded[1:]
    try:
        return msgspec.json.decode(recorded)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(recorded.decode("utf-8", "surrogatepass"))


def input_hash(value: Any, *, step: str) -> str:
    """The hash of a step's input, alike for equal inputs; bytes and JSON never collide (run.journal.entry-key)."""
    if value is None:
        return _NO_INPUT
    if isinstance(value, bytes):
        return hashlib.sha256(_BYTES + value).hexdigest()
    _refuse_foreign(value, step=step, place="its input")
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def _refuse_foreign(value: Any, *, step: str, place: str) -> None:
    if value is None or isinstance(value, (str, bool, int)):
        return
    if isinstance(value, float):
        if value - value != 0:
            raise ValueUnsupported(step=step, found=f"{place}: the number {value!r}")
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            _refuse_foreign(item, step=step, place=f"{place}[{number}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(name, str):
                raise ValueUnsupported(step=step, found=f"{place} with the key {name!r}")
            _refuse_foreign(item, step=step, place=f"{place}[{name!r}]")
    else:
        raise ValueUnsupported(step=step, found=f"{place}: a {type(value).__name__}")
