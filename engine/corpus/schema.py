"""A table's columns and the rules by which two sightings of them become one.

A pull, a run's stage and a commit each have a `Schema`; `merged` is the only way from two of them to one, so a page
border can never decide a type. Widening keeps every value exact: nothing yet < anything; int64 → float64 only while
every integer seen lies within ±2^53, which is why a column keeps its largest magnitude; int64 → decimal(38,0).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from engine.corpus.types import WIDE_INTEGER, arrow_type, logical_type
from engine.errors import ColumnNameRefused, LateType, StoreSchemaIncompatible
from engine.shapes import is_utf8

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

INJECTED: Final = ("_ingested_at", "_run_id", "_site_id", "_commit_seq", "_row_seq")
"""Columns the commit writes into every part; no source may bring one."""

EXACT_IN_FLOAT: Final = 1 << 53
"""The largest magnitude up to which float64 holds every integer."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its logical type and, for int64 and decimal(38,0), the largest magnitude seen in it (0: none yet)."""

    name: str
    type: str
    largest: int | None = None

    @property
    def shown(self) -> str:
        """The type as an error names it: integers no float64 holds say so."""
        return f"{self.type} up to {self.largest}" if (self.largest or 0) > EXACT_IN_FLOAT else self.type


@dataclass(frozen=True)
class Schema:
    """The typed columns in order, and the names seen so far with nothing but nulls, which have no type yet."""

    columns: tuple[Column, ...] = ()
    untyped: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the typed columns, in order."""
        return tuple(column.name for column in self.columns)

    def __getitem__(self, name: str) -> Column:
        return self._by_name[name]

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def merged(self, other: Schema, *, table: str, place: str) -> Schema:
        """This schema with `other`, seen later at `place`: types widened, new columns behind (run.own.stage-schema).

        Raise `StoreSchemaIncompatible` where two types do not go together and `ColumnNameRefused` where two names
        are equal but for case. A name keeps its untyped mark when it gets a type: `refuse_late_types` asks for it.
        """
        if other == self:
            return self
        new = [column for column in other.columns if column.name not in self]
        if new:
            refuse_names((*self.names, *(column.name for column in new)), table=table, place=place)
        columns = [_widened(c, other[c.name], table=table, place=place) if c.name in other else c for c in self.columns]
        return Schema((*columns, *new), tuple(dict.fromkeys((*self.untyped, *other.untyped))))

    def refuse_late_types(self, declared: Mapping[str, str], *, table: str) -> None:
        """Raise `LateType` if a pull declares a type for a column this run's stage carries untyped."""
        for name in self.untyped:
            if name in declared:
                raise LateType(table=table, column=name, declared=declared[name])

    def landed(self) -> Schema:
        """What a commit publishes: the typed columns alone."""
        return replace(self, untyped=())

    def arrow(self) -> pa.Schema:
        """The typed columns as Arrow stores them."""
        return self._arrow

    def to_json(self) -> dict[str, Any]:
        """This schema as plain JSON values."""
        columns = [{"name": c.name, "type": c.type} | ({} if c.largest is None else {"largest": c.largest})
                   for c in self.columns]  # fmt: skip
        return {"columns": columns} | ({"untyped": list(self.untyped)} if self.untyped else {})

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The schema `to_json` wrote. Raise `ValueError` on a type this release does not know."""
        columns = (Column(c["name"], logical_type(c["type"]), c.get("largest")) for c in document["columns"])
        return cls(tuple(columns), tuple(document.get("untyped", ())))

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    @cached_property
    def _arrow(self) -> pa.Schema:
        return pa.schema([(column.name, arrow_type(column.type)) for column in self.columns])


def refuse_names(names: Iterable[str], *, table: str, place: str) -> None:
    """Raise `ColumnNameRefused` for an empty, undecodable or injected name, and for two names equal but for case.

    SQL finds a column whatever its case, so two such columns would be one to every reader.
    """
    seen: dict[str, str] = {}
    for name in names:
        folded = name.lower()
        if folded in INJECTED:
            raise ColumnNameRefused(table=table, column=name, reason="the commit writes a column of that name",
                                    place=place)  # fmt: skip
        if not name.strip() or not is_utf8(name):
            raise ColumnNameRefused(table=table, column=name, reason="it is empty or not valid Unicode", place=place)
        if seen.setdefault(folded, name) != name:
            raise ColumnNameRefused(table=table, column=name, place=place,
                                    reason=f"it differs from {seen[folded]!r} in case only")  # fmt: skip


def cast(batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """`batch` with the columns, order and types of `schema`, missing ones null, widened ones exact.

    `schema` must come from merging the batch's own into another; raise `ValueError` if it lacks one of its columns.
    """
    target = schema.arrow()
    if batch.schema.equals(target):
        return batch
    if strangers := [name for name in batch.schema.names if name not in schema]:
        raise ValueError(f"the schema lacks columns of the batch: {', '.join(strangers)}")
    present = set(batch.schema.names)
    arrays = [
        _as_type(batch.column(f.name), f.type) if f.name in present else pa.nulls(batch.num_rows, f.type)
        for f in target
    ]
    return assembled(arrays, target, rows=batch.num_rows)


def assembled(arrays: list[pa.Array[Any]], schema: pa.Schema, *, rows: int) -> pa.RecordBatch:
    """A batch of `arrays`; one without any still has its rows, which Arrow would forget."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["row"]).select([])


def _as_type(array: pa.Array[Any], wanted: pa.DataType) -> pa.Array[Any]:
    """The array as the type `wanted`; one that is of it already spares the import of Arrow's casts, 40 ms."""
    return array if array.type == wanted else array.cast(wanted)


def _widened(standing: Column, found: Column, *, table: str, place: str) -> Column:
    if standing.type == found.type:
        return standing if (found.largest or 0) <= (standing.largest or 0) else found
    pair = {standing.type, found.type}
    integers = standing if standing.type == "int64" else found
    if pair == {"int64", "float64"} and (integers.largest or 0) <= EXACT_IN_FLOAT:
        return Column(standing.name, "float64")
    if pair == {"int64", WIDE_INTEGER}:
        return Column(standing.name, WIDE_INTEGER, max(standing.largest or 0, found.largest or 0))
    raise StoreSchemaIncompatible(table=table, column=standing.name, standing=standing.shown, found=found.shown,
                                  place=place)  # fmt: skip
