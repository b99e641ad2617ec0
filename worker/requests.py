"""A batch as the engine sends it, read and checked before anything of it reaches D1. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from engine.nesting import parsed
from worker.columns import AmbiguousColumns, check_columns, reads
from worker.values import Bound, NotBindable, bound

PROTOCOL: Final = 1
"""The version of the binding protocol that this Worker speaks."""

MAX_PARAMETERS: Final = 100
MAX_SQL: Final = 100_000
MAX_STATEMENTS: Final = 1000

INTENTS: Final = ("read", "write", "initialize")


class Unacceptable(ValueError):
    """A batch that is refused whole before D1 sees it: what is wrong, and where."""

    def __init__(self, text: str, *, statement: int | None = None, parameter: int | None = None) -> None:
        super().__init__(text)
        self.body = {"error": "unacceptable", "text": text, "statement": statement, "parameter": parameter}


class OtherProtocol(ValueError):
    """A protocol that this Worker does not speak."""

    def __init__(self, asked: object) -> None:
        text = f"this Worker speaks protocol {PROTOCOL}, and the request is of protocol {asked}: deploy the other side"
        super().__init__(text)
        self.body = {"error": "protocol", "text": text, "speaks": PROTOCOL, "asked": asked}


@dataclass(frozen=True, slots=True)
class Bind:
    """A statement and the values for its parameters, `?1` first."""

    sql: str
    values: tuple[Bound, ...]


def batch(body: bytes, *, now: int) -> list[Bind]:
    """Return the statements of the request `body`; `now` is the Worker's clock, in milliseconds.

    Raise `OtherProtocol` or `Unacceptable`.
    """
    request = _parsed(body)
    if request.get("protocol") != PROTOCOL:
        raise OtherProtocol(request.get("protocol"))
    intent, statements = request.get("intent"), request.get("statements")
    if intent not in INTENTS:
        msg = f"intent is {intent!r} and must be one of {', '.join(INTENTS)}"
        raise Unacceptable(msg)
    if not isinstance(statements, list) or not 1 <= len(statements) <= MAX_STATEMENTS:
        msg = f"statements must be a list of 1 to {MAX_STATEMENTS}"
        raise Unacceptable(msg)
    return [_bind(each, index, intent, now) for index, each in enumerate(statements)]


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        request = parsed(body, constant=_no_constant)
    except ValueError as problem:
        msg = f"the body is not JSON: {problem}"
        raise Unacceptable(msg) from None
    if not isinstance(request, dict):
        msg = "the body is not an object"
        raise Unacceptable(msg)
    return request


def _no_constant(name: str) -> None:
    msg = f"{name} is no number that D1 keeps"
    raise ValueError(msg)


def _bind(statement: Any, index: int, intent: str, now: int) -> Bind:
    match statement:
        case {"sql": str(sql), "params": list(params)} if sql.strip():
            _check_sql(sql, index, intent)
        case _:
            msg = f"statement {index} must be an object with sql, a text, and params, a list"
            raise Unacceptable(msg, statement=index)
    if len(params) > MAX_PARAMETERS:
        msg = (
            f"statement {index} has {len(params)} parameters and D1 takes {MAX_PARAMETERS}: send lists as one JSON text"
        )
        raise Unacceptable(msg, statement=index)
    return Bind(sql, tuple(_value(each, index, place, now) for place, each in enumerate(params)))


def _check_sql(sql: str, index: int, intent: str) -> None:
    try:
        size = len(sql.encode())
        check_columns(sql)
    except (UnicodeEncodeError, AmbiguousColumns) as problem:
        msg = f"statement {index}: {problem}"
        raise Unacceptable(msg, statement=index) from None
    if size > MAX_SQL:
        msg = f"statement {index} has {size} bytes of SQL and D1 takes {MAX_SQL}"
        raise Unacceptable(msg, statement=index)
    if intent == "read" and not reads(sql):
        msg = f"statement {index} may write, and the batch says that it only reads"
        raise Unacceptable(msg, statement=index)


def _value(value: Any, index: int, place: int, now: int) -> Bound:
    try:
        return bound(value, now=now)
    except NotBindable as problem:
        msg = f"statement {index}, parameter {place + 1}: {problem}"
        raise Unacceptable(msg, statement=index, parameter=place + 1) from None
