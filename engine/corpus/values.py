"""Values of a read as JSON has them: exact or textual, never rounded."""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable


def plain(value: Any, *, sql_type: str = "") -> Any:
    """`value` as a JSON value: decimals as their exact text, instants as RFC 3339 with a `Z`, bytes in base64.

    Text of SQL type JSON becomes the value it spells; a number that JSON lacks (NaN, infinity) becomes its text.
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str) and sql_type == "JSON":
        return json.loads(value)
    if value is None or isinstance(value, str | bool | int):
        return value
    return next((spell(value) for kind, spell in _SPELLINGS if isinstance(value, kind)), str(value))


def _instant(moment: datetime) -> str:
    """A moment with a zone in UTC; one without has no `Z`, since nobody knows its zone."""
    if moment.tzinfo is None:
        return moment.isoformat()
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


_SPELLINGS: Final[tuple[tuple[type, Callable[[Any], Any]], ...]] = (
    (float, lambda number: number if math.isfinite(number) else str(number)),
    (Decimal, lambda number: format(number, "f")),
    (bytes, lambda content: base64.b64encode(content).decode()),
    (datetime, _instant),  # before date, whose subclass it is
    (date, date.isoformat),
    (time, time.isoformat),
)
