"""Tables read from a database: SQLite or PostgreSQL, one batch of rows a pull, all of a walk in one transaction.

A table with `incremental` is read from the watermark on, ordered by it and then by the primary key; one without, by the
primary key. The walk's position holds what the last row read has there, `{"at": …, "key": […]}`, as the database spells
it: a walk that is resumed goes on behind that row, whatever was deleted or moved meanwhile. Rows alike in all of it
come in one pull, so that no border between two pulls parts them.

A table with neither is read in no order, and no position could name where to go on: its pulls are not recorded, and a
walk that breaks starts again from nothing (run.journal.opt-out).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from engine.errors import Config, CursorPositionUnorderable, Permanent, SourceShape
from engine.pipeline.declaration import SqlSource, Table
from engine.pipeline.sources import versions
from engine.pipeline.sources.dsn import opened
from engine.pipeline.sources.relations import Course, twice
from engine.pipeline.withheld import quotable
from engine.shapes import CursorKind, Pull, canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.source import Ask
    from engine.pipeline.sources.relations import Session, SqlColumn

MOST_ALIKE: Final = 1_000_000
"""Rows of one pull that are alike in watermark and key before it is given up: they must fit the memory together."""

FETCHED: Final = 2_000
"""Rows the database hands over at a time."""


class SqlRows:
    """The rows of a declared query or relation."""

    connector = versions.SQL
    sends = False

    def __init__(self, table: Table) -> None:
        if not isinstance(table.source, SqlSource):
            raise TypeError(f"{table.name} is not read from a database")
        self.cursor_kind = CursorKind.MONOTONIC if table.incremental else CursorKind.OPAQUE_TOKEN
        self._table, self._declared = table, table.source
        # A position is recorded as it is: the values of a protected column must not be in one.
        protected = any(name in table.columns and table.columns[name].treatment for name in table.primary_key)
        self._keys = () if protected else table.primary_key
        self.journaled = bool(table.incremental or self._keys)

    def pulls(self, ask: Ask) -> Iterator[Pull]:
        """One pull a batch, each carrying the position of the next.

        Raise the tagged failures of `relations.Opened`, `CursorPositionUnorderable` for a row without a clock,
        `SourceShape` for one without a key or with a value that is not what its column says.
        """
        course = Course(self._table.incremental, self._keys, ask.since, self._after(ask.position), ask.until)
        with opened(self._declared, ask.secrets, place=self._place()) as session:
            columns = self._columns(session, course)
            self._refuse_hole(session, course)
            yield from self._batches(session, course, columns)

    def _batches(self, session: Session, course: Course, columns: tuple[SqlColumn, ...]) -> Iterator[Pull]:
        types = {column.name: column.type for column in columns if column.type}
        rows = session.rows(course, size=min(self._declared.batch, FETCHED))
        read, ahead = 0, next(rows, None)
        while True:
            page, ahead = self._page(rows, ahead, width=len(columns))
            landed = [dict(zip((c.name for c in columns), row, strict=False)) for row in page]
            for column in columns:
                self._convert(landed, column, read)
            read += len(page)
            more = ahead is not None
            position = self._position(page[-1][len(columns) :], read) if more else None
            yield Pull(rows=landed, position=position, more=more, snapshot_complete=not more, types=types)
            if not more:
                return

    def _page(
        self, rows: Iterator[tuple[Any, ...]], first: tuple[Any, ...] | None, *, width: int
    ) -> tuple[list[tuple[Any, ...]], tuple[Any, ...] | None]:
        """A batch that begins with the row `first`, no row alike its last left out, and the row behind it."""
        if first is None:
            return [], None
        page = [first, *islice(rows, self._declared.batch - 1)]
        ahead = next(rows, None)
        while ahead is not None and self.journaled and ahead[width:] == page[-1][width:]:
            if len(page) >= self._declared.batch + MOST_ALIKE:
                raise Permanent(
                    f"{self._place()}: more than {MOST_ALIKE:,} rows have the same {self._table.incremental}",
                    remedy="declare a primary_key, by which they can be told apart",
                )
            page.append(ahead)
            ahead = next(rows, None)
        return page, ahead

    def _convert(self, rows: list[dict[str, Any]], column: SqlColumn, before: int) -> None:
        if column.read is None:
            return
        name = column.name
        for number, row in enumerate(rows, before + 1):
            try:
                row[name] = None if row[name] is None else column.read(row[name])
            except ValueError as problem:
                place, found = f"{self._place()}, row {number} of this read", _shown(row[name])
                raise SourceShape(place=place, path=name, found=found, expected=str(problem)) from None

    def _columns(self, session: Session, course: Course) -> tuple[SqlColumn, ...]:
        columns = session.columns({name: c.type for name, c in self._table.columns.items() if c.type})
        names = [column.name for column in columns]
        if again := twice(names):
            raise Permanent(f"{self._place()}: two columns are named {again!r}", remedy="name one of them with AS")
        for name in course.order:
            if name not in names:
                raise Config(f"{self._place()}: it has no column {name!r}; there are: {', '.join(names)}",
                             remedy="mend incremental or primary_key")  # fmt: skip
        if any(column.unbounded for column in columns if column.name == course.clock):
            raise Config(f"{self._place()}: {course.clock} is a number without bounds, which lands as text and has "
                         "another order there", remedy=f"declare columns.{course.clock}.type")  # fmt: skip
        return columns

    def _refuse_hole(self, session: Session, course: Course) -> None:
        """A row without a place in the order would be left out in silence."""
        hole = session.hole(course) if course.order else None
        if hole is None:
            return
        marks = dict(zip(course.order, hole, strict=True))
        row = ", ".join(f"{name} = {_shown(value)}" for name, value in marks.items())
        keyless = [name for name in course.keys if marks[name] is None]
        if keyless:
            raise SourceShape(place=self._place(), path=keyless[0], found=f"null ({row})",
                              expected="a value in every row, as it is part of the primary key")  # fmt: skip
        clock = str(course.clock)
        raise CursorPositionUnorderable(table=self._table.name, field=clock, found=_shown(marks[clock]),
                                        place=f"the row with {row}")  # fmt: skip

    def _position(self, marks: tuple[Any, ...], read: int) -> dict[str, Any]:
        if not self.journaled:
            return {"row": read}
        if self._table.incremental is None:
            return {"key": list(marks)}
        return {"at": marks[0], "key": list(marks[1:])}

    def _after(self, position: Any) -> tuple[Any, ...] | None:
        if position is None:
            return None
        if not self.journaled:
            raise Permanent(f"{self._place()}: the read broke off, and rows without an order cannot be read on from "
                            "where it was", remedy="run again, or declare a primary_key")  # fmt: skip
        clock = [position["at"]] if self._table.incremental and isinstance(position, dict) and "at" in position else []
        key = position.get("key") if isinstance(position, dict) else None
        if not isinstance(key, list) or len(key) != len(self._keys) or bool(clock) != bool(self._table.incremental):
            raise Config(f"{self._place()}: {canonical_json(position)} is no position of its rows",
                         remedy=f"contextful pipeline reset {self._table.pipeline_id}")  # fmt: skip
        return (*clock, *key)

    def _place(self) -> str:
        read = self._declared.relation or "its query"
        return f"pipeline {self._table.pipeline_id}, table {self._table.name}, {read}"


def _shown(value: Any) -> str:
    text = "null" if value is None else quotable(repr(value))
    return text if len(text) <= 60 else f"{text[:57]}..."
