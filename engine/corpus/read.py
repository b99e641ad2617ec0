"""The read face: one SELECT in DuckDB over the parts that markers name, and nothing else of the machine.

The statement is judged by its syntax tree first; then the session itself is shut: it may open the named parts, no
other file, no network, and none of its settings can be changed back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import duckdb

from engine.corpus import layout, reserved
from engine.corpus.fetch import fetched
from engine.corpus.statement import admitted, damage, empty, refusal, unknown
from engine.corpus.timeline import listed
from engine.corpus.values import plain
from engine.corpus.views import Snapshot, literals, snapshot, view

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine.corpus.marker import Marker
    from engine.corpus.statement import Statement
    from engine.ports import Objects

CEILING: Final = 10_000
"""Rows of an answer unless the reader says otherwise."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement gave: `types` are SQL types by column, `snapshots` the newest commit each table was read at."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    snapshots: dict[str, str]
    truncated: bool

    @property
    def plain_rows(self) -> list[list[Any]]:
        """The rows as JSON values."""
        return [[plain(value, sql_type=kind) for value, kind in zip(row, self.types, strict=True)]
                for row in self.rows]  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table: its columns with SQL types, the rows landed and still visible, the instant of its last commit.

    With a primary key a read gives the latest row a key, so `rows` is the most it can give.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    primary_key: tuple[str, ...]
    rows: int
    committed_at: int
    seq: int


class ReadFace:
    """Reads the corpus in `objects`; of a table without a commit, `declared` names the pipeline that lands one."""

    def __init__(self, objects: Objects, *, declared: Mapping[str, str] | None = None) -> None:
        self._objects = objects
        self._declared = declared or {}

    def read(self, statement: str, *, as_of: int | None = None, limit: int | None = CEILING) -> Answer:
        """Run one SELECT over the tables and `_runs` as they were at `as_of` (inclusive; None: now).

        At most `limit` rows come back, and `truncated` tells that there were more. Raise `ReadRefused` for anything
        that is not one SELECT over the corpus, `StorageUnusable` when a part cannot be read, `CommitMissing` where a
        table has lost a commit.
        """
        with _session() as connection:
            asked = admitted(statement, connection=connection)
            snapshots = self._snapshots(asked, as_of=as_of)
            files = fetched(self._objects, [part for shot in snapshots for part in shot.parts])
            try:
                if any(map(reserved.named, (*asked.tables, *asked.shadowed))):
                    reserved.tabled(connection, self._objects, as_of=as_of)
                _shut(connection, snapshots, files)
                return _answer(connection, asked, snapshots, limit)
            except duckdb.Error as cause:
                missing = [part for part, file in files.items() if not file.exists()]
                if missing and self._snapshots(asked, as_of=as_of) != snapshots:
                    return self.read(statement, as_of=as_of, limit=limit)  # a table was dropped meanwhile
                if damaged := damage(cause, missing=missing):
                    raise damaged from cause
                own = reserved.COLUMNS if any(map(reserved.named, asked.tables)) else ()
                columns = dict.fromkeys((*own, *(name for shot in snapshots for name, _ in shot.columns)))
                raise refusal(cause, columns=columns) from cause

    def describe(self, *, as_of: int | None = None) -> list[TableInfo]:
        """Every table with a commit by then, in order of their names."""
        return [_info(shot, shot.newest) for shot in self._all(as_of) if shot.newest]

    def tables(self) -> list[str]:
        """The names of the tables that have a commit."""
        return sorted(self._listed())

    def _snapshots(self, asked: Statement, *, as_of: int | None) -> list[Snapshot]:
        """The tables a statement names. Their spelling is tried first: to list the corpus costs more than to read."""
        if asked.lists_tables:
            return self._all(as_of)
        shots = [self._named(name, as_of) for name in asked.tables if not reserved.named(name)]
        behind = (snapshot(self._objects, name, as_of=as_of) for name in filter(layout.usable, asked.shadowed))
        return list({shot.table: shot for shot in (*shots, *behind) if shot}.values())

    def _named(self, name: str, as_of: int | None) -> Snapshot:
        if layout.usable(name) and (shot := snapshot(self._objects, name, as_of=as_of)):
            return shot
        found = self._listed()
        spelled = {table.lower(): table for table in found}.get(name.lower())
        shot = snapshot(self._objects, spelled, as_of=as_of, listed=found[spelled]) if spelled else None
        if shot is None:
            pipelines = {table.lower(): pipeline for table, pipeline in self._declared.items()}
            pipeline = pipelines.get(name.lower())
            raise empty(name, pipeline=pipeline) if pipeline else unknown(name, known=found)
        return shot

    def _all(self, as_of: int | None) -> list[Snapshot]:
        """Every table, by name, from one listing."""
        found = sorted(self._listed().items())
        shots = (snapshot(self._objects, table, as_of=as_of, listed=names) for table, names in found)
        return [shot for shot in shots if shot]

    def _listed(self) -> dict[str, list[str]]:
        return listed(self._objects.list(""))


def _shut(connection: duckdb.DuckDBPyConnection, snapshots: list[Snapshot], files: Mapping[str, Path]) -> None:
    """Make the views, then leave the session their parts and nothing to undo it with."""
    for shot in snapshots:
        connection.execute(view(shot, files=files))
    connection.execute(f"SET allowed_paths = {literals([str(file) for file in files.values()])}")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _session() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "temp_directory": "",
        }
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _answer(
    connection: duckdb.DuckDBPyConnection, asked: Statement, snapshots: list[Snapshot], limit: int | None
) -> Answer:
    cursor = connection.execute(asked.text)
    columns = cursor.description or []
    rows = cursor.fetchall() if limit is None else cursor.fetchmany(limit + 1)
    truncated = limit is not None and len(rows) > limit
    return Answer(
        columns=tuple(column[0] for column in columns),
        types=tuple(str(column[1]) for column in columns),
        rows=rows[:limit],
        snapshots={shot.table: shot.newest.by.commit_id for shot in snapshots if shot.newest},
        truncated=truncated,
    )


def _info(shot: Snapshot, newest: Marker) -> TableInfo:
    rows = sum(marker.rows for marker in shot.visible)
    return TableInfo(shot.table, tuple(shot.columns), shot.primary_key, rows, newest.committed_at, newest.seq)
