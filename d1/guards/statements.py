"""Calls as D1 binds them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from d1.wire import numbered

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.ports import Call

Bound = tuple[str, tuple[Any, ...]]
"""A statement's text with numbered parameters, and their values."""


def bound(calls: Iterable[Call], *, now: int) -> list[Bound]:
    """The batch that `calls` are; `now` is the Worker's instant."""
    return [_bound(each.statement, {**each.arguments, "now": now}) for each in calls]


def _bound(statement: Any, arguments: dict[str, Any]) -> Bound:
    return numbered(statement), tuple(arguments[name] for name in statement.parameters)
