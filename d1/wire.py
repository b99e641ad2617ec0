"""Statements and values as protocol 1 carries them, and what D1 takes of each.

What is over a limit is refused here: D1's own refusal would come after a round trip, and some of its limits change a
value in silence instead.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from engine.errors import StorageLimitExceeded
from engine.sql import PARAMETER

if TYPE_CHECKING:
    from engine.ports import Call, Row, Rows, Statement

PROTOCOL: Final = 1
"""The version of the binding protocol that this engine speaks."""

MAX_PARAMETERS: Final = 100
"""Parameters of one statement."""

MAX_VALUE: Final = 2_000_000
"""Bytes of a text or BLOB."""

MAX_STATEMENTS: Final = 1_000
"""Statements of one batch."""

EXACT: Final = 2**53 - 1
"""The first integer that does not cross into JavaScript as a number."""


def sent(call: Call, *, now: int | None) -> dict[str, Any]:
    """Return `call` as it is sent; `now` is the instant to judge by, None to leave it to the Worker's clock.

    Raise `StorageLimitExceeded`.
    """
    statement = call.statement
    if len(statement.parameters) > MAX_PARAMETERS:
        raise _over(statement, f"{len(statement.parameters)} parameters", MAX_PARAMETERS)
    instant = {"now": True} if now is None else now
    params = [
        instant if name == "now" else encoded(call.arguments[name], statement=statement)
        for name in statement.parameters
    ]  # fmt: skip
    return {"sql": numbered(statement), "params": params}


@lru_cache(maxsize=512)
def numbered(statement: Statement) -> str:
    """The text with `?1`, `?2` … for its named parameters, in the order of `statement.parameters`."""
    numbers = {name: f"?{number}" for number, name in enumerate(statement.parameters, start=1)}
    return PARAMETER.sub(lambda match: numbers[match[1]], statement.text)


def encoded(value: Any, *, statement: Statement) -> Any:
    """Return `value` as it travels. Raise `StorageLimitExceeded`."""
    match value:
        case bool():
            return int(value)
        case int() if abs(value) >= EXACT:
            return {"int": str(value)}
        case float() if not math.isfinite(value):
            raise _over(statement, f"the value {value}", "finite numbers")
        case str():
            _measure(statement, len(value.encode()))
            return str(value)
        case bytes():
            _measure(statement, len(value))
            return {"b64": base64.b64encode(value).decode()}
    return value


@dataclass(frozen=True, slots=True)
class Result:
    """What a statement gave, and what D1 counted for it."""

    rows: Rows
    rows_read: int
    rows_written: int


def result(said: object) -> Result:
    """The result that travelled as `said`. Raise `ValueError` where none did."""
    match said:
        case {"rows": list(rows), "rows_read": int(read), "rows_written": int(written)}:
            return Result([_row(cells) for cells in rows], read, written)
    raise ValueError(said)


def _row(cells: object) -> Row:
    if not isinstance(cells, list):
        raise ValueError(cells)  # noqa: TRY004 - a value that travelled, of whichever type
    return tuple(_decoded(cell) for cell in cells)


def _decoded(cell: Any) -> Any:
    match cell:
        case {"b64": str(text)}:
            return base64.b64decode(text, validate=True)
        case {"int": str(digits)}:
            return int(digits)
        case dict() | list():
            raise ValueError(cell)
    return cell


def _measure(statement: Statement, size: int) -> None:
    if size > MAX_VALUE:
        raise _over(statement, f"a value of {size} bytes", f"{MAX_VALUE} bytes")


def _over(statement: Statement, found: str, limit: object) -> StorageLimitExceeded:
    return StorageLimitExceeded(statement=statement.name, found=found, limit=str(limit))
