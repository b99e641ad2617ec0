"""What an export publishes: the rows committed since its position in the order of their commits, or a whole answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import duckdb

from engine.corpus.fetch import fetched
from engine.corpus.marker import find, history
from engine.corpus.read import ReadFace
from engine.corpus.values import plain
from engine.corpus.views import Snapshot, quoted, view
from engine.errors import ExportColumnsAmbiguous

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.corpus.marker import Marker
    from engine.pipeline.declaration import Export
    from engine.ports import Objects

FETCHED: Final = 2_000
"""Rows held in memory at a time, of a table."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows to publish, read as they are asked for, and the position that the next export goes on from."""

    rows: Iterator[dict[str, Any]]
    position: dict[str, Any] | None


def selected(export: Export, objects: Objects, *, position: dict[str, Any] | None) -> Selection:
    """What `export` has to publish at this instant, going on from `position`.

    Raise `ReadRefused` for a statement that is not one SELECT over the corpus, `ExportColumnsAmbiguous` for one that
    names two columns alike.
    """
    if export.table is not None:
        return _since(objects, export.table, position)
    assert export.statement is not None, "an export has a table or a statement"
    return Selection(_answer(objects, export.statement), None)


def _since(objects: Objects, table: str, position: dict[str, Any] | None) -> Selection:
    """The rows of each commit after `position`, in order; those that a later replacement hides are left out."""
    newer = list(history(objects, table, after=_published(objects, table, position)))
    if not newer:
        return Selection(iter(()), position)
    start = max((number for number, marker in enumerate(newer) if marker.replaces), default=0)
    newest = newer[-1]
    reached = {"table": table, "seq": newest.seq, "commit_id": newest.by.commit_id}
    return Selection(_landed(objects, table, [marker for marker in newer[start:] if marker.parts], newest), reached)


def _published(objects: Objects, table: str, position: dict[str, Any] | None) -> int:
    """The number of the last commit that is published already; none of a table that was dropped and begun anew."""
    if position is None or position["table"] != table:
        return 0
    marker = find(objects, table, position["seq"])
    return marker.seq if marker is not None and marker.by.commit_id == position["commit_id"] else 0


def _landed(objects: Objects, table: str, markers: Sequence[Marker], newest: Marker) -> Iterator[dict[str, Any]]:
    """Every row that `markers` landed, each under the columns of the newest one: of a keyed table all its versions."""
    names = [column.name for column in newest.schema.columns]
    unkeyed = replace(newest, primary_key=())
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for marker in markers:
            files = fetched(objects, marker.parts)
            connection.execute(view(Snapshot(table, unkeyed, (marker,)), files=files))
            columns = ", ".join(map(quoted, names))
            yield from _read(connection, f"SELECT {columns} FROM {quoted(table)} ORDER BY _row_seq")  # noqa: S608 - quoted
            connection.execute(f"DROP VIEW {quoted(table)}")


def _read(connection: duckdb.DuckDBPyConnection, text: str) -> Iterator[dict[str, Any]]:
    cursor = connection.execute(text)
    columns = [(name, str(kind)) for name, kind, *_ in cursor.description or []]
    while rows := cursor.fetchmany(FETCHED):
        for row in rows:
            yield {name: plain(value, sql_type=kind) for (name, kind), value in zip(columns, row, strict=True)}


def _answer(objects: Objects, statement: str) -> Iterator[dict[str, Any]]:
    answer = ReadFace(objects).read(statement, limit=None)
    if twice := [name for name, count in Counter(answer.columns).items() if count > 1]:
        raise ExportColumnsAmbiguous(columns=", ".join(twice))
    return (dict(zip(answer.columns, row, strict=True)) for row in answer.plain_rows)
