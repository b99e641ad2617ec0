"""Tables of the schema as files of rows, a row a line, whichever SQL store they are in."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from engine.ports import Call, Statement
from engine.shapes import canonical_json
from engine.sql import schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from engine.ports import Database, Row

PAGE: Final = 500
PAGE_OF_VALUES: Final = 16
"""Rows of one read, and where each may hold a value of a mebibyte and more."""

BATCH: Final = 50
BATCH_BYTES: Final = 4 << 20
"""Rows and characters of one write."""

_TABLE: Final = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+) \(\n(.*)\n\)", re.DOTALL)
_COLUMN: Final = re.compile(r"^  ([a-z_0-9]+) +(TEXT|INTEGER|BLOB|REAL|ANY)\b", re.MULTILINE)
_KEY: Final = re.compile(r"^  PRIMARY KEY \(([^)]*)\)|^  ([a-z_0-9]+) [^\n]*PRIMARY KEY", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the schema: its columns in order, those of its primary key, and how many rows are read at once."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    page: int


def tables(files: tuple[str, ...]) -> list[Table]:
    """Every table of the schema in `files` that holds rows, read off the statements that create them."""
    found = []
    for created in schema(*files):
        if (match := _TABLE.match(created.statement.text)) and (key := _KEY.search(match[2])):
            columns = _COLUMN.findall(match[2])
            named = tuple(part.strip() for part in (key[1] or key[2]).split(","))
            page = PAGE if all(kind != "BLOB" for _, kind in columns) else PAGE_OF_VALUES
            found.append(Table(match[1], tuple(name for name, _ in columns), named, page))
    return found


def rows(database: Database, table: Table) -> Iterator[Row]:
    """The rows by key, page after page."""
    places = [table.columns.index(name) for name in table.key]
    after: tuple[Any, ...] | None = None
    while True:
        page = database.run(_page(table, after))[0]
        yield from page
        if len(page) < table.page:
            return
        after = tuple(page[-1][place] for place in places)


def _page(table: Table, after: tuple[Any, ...] | None) -> Call:
    key = ", ".join(table.key)
    marks = tuple(f"after_{number}" for number in range(len(table.key))) if after else ()
    beyond = f" WHERE ({key}) > ({', '.join(f':{mark}' for mark in marks)})" if after else ""
    text = f"SELECT {', '.join(table.columns)} FROM {table.name}{beyond} ORDER BY {key} LIMIT {table.page}"  # noqa: S608 - names of our schema
    statement = Statement(f"back_up_{table.name}", text, marks, reads=True, durable=False)
    return Call(statement, dict(zip(marks, after or (), strict=True)))


def fill(database: Database, table: Table, path: Path) -> None:
    """Insert the rows of a file; those that an interrupted restore brought stand.

    Such a row is not inserted at all, instead of meeting its key: a guard that was restored refuses every insert of the
    owner that it protects.
    """
    text = (
        f"INSERT INTO {table.name} ({', '.join(table.columns)})"  # noqa: S608 - names of our schema
        f" SELECT {', '.join(f':{name}' for name in table.columns)} WHERE NOT EXISTS"
        f" (SELECT 1 FROM {table.name} WHERE {' AND '.join(f'{name} = :{name}' for name in table.key)})"
    )
    statement = Statement(f"restore_{table.name}", text, table.columns, reads=False, durable=True)
    batch: list[Call] = []
    size = 0
    for line in lines(path):
        batch.append(Call(statement, dict(zip(table.columns, map(_value, json.loads(line)), strict=True))))
        size += len(line)
        if len(batch) == BATCH or size > BATCH_BYTES:
            database.run(*batch)
            batch, size = [], 0
    if batch:
        database.run(*batch)


def write_lines(path: Path, values: Iterable[Any]) -> int:
    """Write each value as a line of canonical JSON and return how many there were."""
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for value in values:
            file.write(canonical_json(value) + "\n")
            count += 1
    return count


def lines(path: Path) -> Iterator[str]:
    """The lines of a file."""
    with path.open(encoding="utf-8", newline="\n") as file:
        yield from file


def plain(row: Row) -> list[Any]:
    """The row as JSON."""
    return [{"b64": base64.b64encode(cell).decode()} if isinstance(cell, bytes) else cell for cell in row]


def _value(cell: Any) -> Any:
    return base64.b64decode(cell["b64"]) if isinstance(cell, dict) else cell
