"""A table as its readers see it: the SQL of the view over the parts that its markers name.

Every part holds exactly the columns of its own marker's schema. Each is cast to the newest marker's explicitly, since
`union_by_name` lets DuckDB choose: it rounds BIGINT beside DOUBLE and turns INT beside text into text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.corpus import layout
from engine.corpus.marker import require_whole, without_gap
from engine.corpus.timeline import Gone, Timeline
from engine.corpus.types import decimal_digits
from engine.errors import StorageUnusable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from engine.corpus.marker import Marker, Part
    from engine.corpus.schema import Column, Schema
    from engine.ports import Objects

_INSTANT: Final = "TIMESTAMP WITH TIME ZONE"
SQL_TYPES: Final = {
    "string": "VARCHAR", "int64": "BIGINT", "float64": "DOUBLE", "bool": "BOOLEAN", "date": "DATE",
    "timestamp": _INSTANT, "bytes": "BLOB", "json": "JSON",
}  # fmt: skip
INJECTED: Final = (
    ("_ingested_at", _INSTANT), ("_run_id", "VARCHAR"), ("_site_id", "VARCHAR"), ("_commit_seq", "BIGINT"),
    ("_row_seq", "BIGINT"),
)  # fmt: skip
LOOKS: Final = 3
"""How often a table that is dropped while it is looked at is looked at anew."""

_LATEST: Final = "ORDER BY _ingested_at DESC, _commit_seq DESC, _row_seq DESC"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table at an instant: its commits by then whose rows are visible, and the one, `shape`, that tells its columns.

    That is the newest by then; of a table whose first commit came later it is the first, and no rows are visible.
    """

    table: str
    shape: Marker
    visible: tuple[Marker, ...]

    @property
    def newest(self) -> Marker | None:
        """The newest commit by then."""
        return self.visible[-1] if self.visible else None

    @property
    def schema(self) -> Schema:
        """The columns readers see."""
        return self.shape.schema

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns whose latest row alone is read; none: every row is."""
        return tuple(name for name in self.shape.primary_key if name in self.schema)

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Name and SQL type of every column a reader finds, the injected ones last."""
        return [(column.name, sql_type(column.type)) for column in self.schema.columns] + list(INJECTED)

    @property
    def parts(self) -> list[Part]:
        """Every visible part."""
        return [part for marker in self.visible for part in marker.parts]


def snapshot(
    objects: Objects, table: str, *, as_of: int | None = None, listed: list[str] | None = None
) -> Snapshot | None:
    """`table` with every commit up to the instant `as_of`, inclusive; None when it has no commit at all.

    `listed` are the names of its markers where the caller has just listed them. Raise `CommitMissing` where a commit is
    gone: an answer without its rows would look like a whole one.
    """
    names = require_whole(objects, table) if listed is None else without_gap(objects, table, listed)
    for _ in range(LOOKS):
        try:
            return _snapshot(Timeline(objects, names), table, as_of) if names else None
        except Gone:
            names = require_whole(objects, table)
    raise StorageUnusable(place=layout.commits(table), reason="commit manifests that it lists cannot be read")


def _snapshot(timeline: Timeline, table: str, as_of: int | None) -> Snapshot:
    visible = tuple(timeline.visible(timeline.until(as_of)))
    return Snapshot(table, visible[-1] if visible else timeline.at(0), visible)


def view(snapshot: Snapshot, *, files: Mapping[str, Path]) -> str:
    """The statement that makes `snapshot` a view under the table's name, over the `files` that hold its parts."""
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for marker in snapshot.visible:
        columns = tuple((column.name, column.type) for column in marker.schema.columns)
        alike.setdefault(columns, []).extend(str(files[part.name]) for part in marker.parts)
    selects = [_select(snapshot.schema, dict(columns), paths) for columns, paths in alike.items() if paths]
    rows = " UNION ALL ".join(selects) or _nothing(snapshot)
    return f"CREATE VIEW {quoted(snapshot.table)} AS {_latest(rows, snapshot.primary_key)}"


def sql_type(logical: str) -> str:
    """DuckDB's name of a logical type."""
    return logical.upper() if decimal_digits(logical) else SQL_TYPES[logical]


def quoted(name: str) -> str:
    """`name` as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def literals(texts: Sequence[str]) -> str:
    """`texts` as a list of SQL strings."""
    return "[" + ", ".join("'" + text.replace("'", "''") + "'" for text in texts) + "]"


def _select(schema: Schema, present: dict[str, str], files: list[str]) -> str:
    own = [_cast(column, present=column.name in present) for column in schema.columns]
    columns = ", ".join([*own, *(name for name, _ in INJECTED)])
    return f"SELECT {columns} FROM read_parquet({literals(files)}, hive_partitioning = false)"  # noqa: S608 - quoted


def _cast(column: Column, *, present: bool) -> str:
    source = quoted(column.name) if present else "NULL"
    return f"CAST({source} AS {sql_type(column.type)}) AS {quoted(column.name)}"


def _nothing(snapshot: Snapshot) -> str:
    columns = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in snapshot.columns)
    return f"SELECT {columns} WHERE false"


def _latest(rows: str, primary_key: tuple[str, ...]) -> str:
    """The latest row a key. A null beside values is part of a key; a row whose key is all null has none, and stays."""
    if not primary_key:
        return rows
    names = [quoted(name) for name in primary_key]
    unkeyed = " AND ".join(f"{name} IS NULL" for name in names)
    latest = f"row_number() OVER (PARTITION BY {', '.join(names)} {_LATEST}) = 1"
    return f"SELECT * FROM ({rows}) QUALIFY ({unkeyed}) OR {latest}"  # noqa: S608 - quoted
