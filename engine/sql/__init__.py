"""The statements, by name, out of the `.sql` files beside this module.

A statement begins with `-- name: NAME` or `-- name: NAME, durable`; comment lines after it belong to the reader. Every
parameter is `:name`; `:now` is the store's to fill. The text is portable: what SQLite, D1 and PostgreSQL all take.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from engine.ports import Call, Statement
from engine.sql.texts import text_of

SCHEMA_VERSION: Final = 5
"""The execution schema this executable supports."""

CATALOG: Final = (
    *("meta", "holders", "owners", "leases", "guards", "runs", "stops", "cursors", "fires", "requests", "meters"),
    *("snapshots", "chunks", "operator", "outbox"),
)
"""The files that hold what a catalog keeps, in the order their tables are created."""

TABLES: Final = (*CATALOG, "journal", "blobs", "awakeables")
"""The files of a store whose journal is in its catalog's database."""

APART: Final = (*CATALOG, "uncollected")
"""The files of a catalog whose journal is kept elsewhere."""

_HEAD = re.compile(r"^-- name: (\w+)(, durable)?\n", re.MULTILINE)
PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z_0-9]+)")


def call(name: str, /, **arguments: Any) -> Call:
    """Return the statement `name` with its arguments; what the statement does not name is left out."""
    return Call(statement(name), arguments)


def statement(name: str) -> Statement:
    """Return the statement `name`."""
    return _statements()[name]


def schema(*tables: str) -> list[Call]:
    """Return the statements that create `tables`, each harmless to repeat."""
    return [Call(s, {}) for table in tables for s in _table(table).values() if s.name.startswith("create_")]


@cache
def _statements() -> dict[str, Statement]:
    return {name: s for table in ("catalog", "legacy", "uncollected", *TABLES) for name, s in _table(table).items()}


@cache
def _table(table: str) -> dict[str, Statement]:
    parts = _HEAD.split(text_of(table))[1:]
    return {name: _parse(name, body, durable) for name, durable, body in zip(*[iter(parts)] * 3, strict=True)}


def _parse(name: str, body: str, durable: str | None) -> Statement:
    text = "\n".join(line for line in body.splitlines() if not line.startswith("--")).strip().rstrip(";")
    parameters = tuple(dict.fromkeys(PARAMETER.findall(text)))
    return Statement(name, text, parameters, reads=text.startswith("SELECT"), durable=bool(durable))
