"""Rows of a SQLite file, opened read-only.

SQLite keeps values, not types: a column's declared type says what its values should be, and one that is not is named
with its row. `BLOB`, `NUMERIC` without digits and columns without a type go by their values. An instant without a zone
is taken as UTC.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from engine.clock import SystemClock
from engine.errors import AuthExpired, Config, ConnectorBoundHit, ContextfulError, Permanent, Transient
from engine.pipeline.sources.relations import SqlColumn, bare, sortable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from engine.pipeline.declaration import SqlSource
    from engine.pipeline.sources.relations import Course

_VIEW: Final = "temp.contextful_rows"
_LOOKS_EVERY: Final = 20_000
"""Instructions of SQLite between two looks at the clock."""

_NAIVE: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?)?", re.ASCII)
_DECIMAL: Final = re.compile(r"(?:DECIMAL|NUMERIC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", re.ASCII)
_TYPES: Final = (
    (("BOOL",), "bool"),
    (("TIMESTAMP", "DATETIME"), "timestamp"),
    (("DATE",), "date"),
    (("TIME", "CHAR", "CLOB", "TEXT", "UUID"), "string"),
    (("INT",), "int64"),
    (("REAL", "FLOA", "DOUB"), "float64"),
    (("JSON",), "json"),
)
_BUSY: Final = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_NOMEM", "SQLITE_FULL", "SQLITE_PROTOCOL")


class SqliteRelation:
    """A query or table of one file; enter it to read."""

    def __init__(self, source: SqlSource, dsn: str, *, place: str, quoted: Callable[[str], str]) -> None:
        self._source, self._place, self._quoted = source, place, quoted
        self._path = source.base / dsn.removeprefix("sqlite:///")
        self._clock = SystemClock()
        self._deadline = 0
        self._columns: dict[str, SqlColumn] = {}

    def __enter__(self) -> Self:
        """Open the file and begin the transaction."""
        if not self._path.is_file():
            raise Config(
                f"{self._place}: there is no file {self._path}",
                remedy="mend source.dsn: sqlite:///shop.db is beside the manifest, sqlite:////data/shop.db is not",
            )
        with self._failures():
            self._db = sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True, isolation_level=None,
                                       timeout=self._source.timeout_ms / 1000, check_same_thread=False)  # fmt: skip
        try:
            self._begin()
        except BaseException:
            self._db.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._db.close()

    def columns(self, declared: Mapping[str, str]) -> tuple[SqlColumn, ...]:
        """The columns, typed by what the manifest declares, else by what they were created as."""
        with self._failures():
            found = self._db.execute("PRAGMA temp.table_info(contextful_rows)").fetchall()
        self._columns = {name: _column(name, created.upper(), declared.get(name)) for _, name, created, *_ in found}
        return tuple(self._columns.values())

    def hole(self, course: Course) -> tuple[Any, ...] | None:
        """Marks of a row with a null among them, or with a clock of another class than the watermark's."""
        wanted = [f"{_name(name)} IS NULL" for name in course.order]
        if course.clock and isinstance(course.since, str) and not self._numeric(course):
            wanted += [f"{_name(course.clock)} < ''", f"{_name(course.clock)} >= x''"]
        elif course.clock and course.since is not None:
            wanted.append(f"{_name(course.clock)} >= ''")
        marks = ", ".join(map(_name, course.order))
        text = f"SELECT {marks} FROM {_VIEW} WHERE {' OR '.join(wanted)} LIMIT 1"  # noqa: S608 - names are quoted
        with self._failures():
            row = self._db.execute(text).fetchone()
        return None if row is None else tuple(row)

    def rows(self, course: Course, *, size: int) -> Iterator[tuple[Any, ...]]:
        """The rows, `size` at a time."""
        conditions, values = self._conditions(course)
        marks, width = self._order(course), len(self._columns)
        text = f"SELECT {', '.join(['*', *marks])} FROM {_VIEW}"  # noqa: S608 - names are quoted, values are bound
        text += f" WHERE {' AND '.join(conditions)}" if conditions else ""
        text += f" ORDER BY {', '.join(marks)}" if marks else ""
        with self._failures():
            cursor = self._db.execute(text, values)
        while True:
            with self._failures():
                fetched = cursor.fetchmany(size)
            if not fetched:
                return
            for row in fetched:
                yield (*row[:width], *map(_mark, row[width:]))

    def _begin(self) -> None:
        source = self._source
        relation = ".".join(map(_name, (source.relation or "").split(".")))
        body = bare(source.query) if source.query else f"SELECT * FROM {relation}"  # noqa: S608 - names are quoted
        with self._failures():
            self._db.set_progress_handler(lambda: self._clock.now() > self._deadline, _LOOKS_EVERY)
            self._db.create_function("contextful_moment", 1, _moment, deterministic=True)
            self._db.create_function("contextful_sortable", 1, _sortable, deterministic=True)
            self._db.execute(f"CREATE TEMP VIEW contextful_rows AS {body}")
            self._db.execute("PRAGMA query_only = ON")
            self._db.execute("BEGIN")

    def _conditions(self, course: Course) -> tuple[list[str], list[Any]]:
        conditions, values = [], []
        if course.clock and course.since is not None:
            conditions.append(f"{_name(course.clock)} >= ?")
            values.append(self._bound(course))
        for condition, value in self._ends(course):
            conditions.append(condition)
            values.append(value)
        if course.after is not None:
            marks = ", ".join(self._order(course))
            conditions.append(f"({marks}) > ({', '.join('?' * len(course.after))})")
            values += map(_unmarked, course.after)
        return conditions, values

    def _ends(self, course: Course) -> list[tuple[str, Any]]:
        """What ends the window: as the column's own text, for an index, and as the rows are ordered, to the moment."""
        if not course.clock or course.until is None or (isinstance(course.until, str) and self._numeric(course)):
            return []
        if not isinstance(course.until, str):
            return [(f"{_name(course.clock)} < ?", course.until)]
        end = _moment(course.until) if self._columns[course.clock].type == "timestamp" else _sortable(course.until)
        return [(f"{_name(course.clock)} < ?", course.highest_text), (f"{self._order(course)[0]} < ?", end)]

    def _order(self, course: Course) -> list[str]:
        """What rows are ordered by: a clock of instants as the moments they are, however each is spelled."""
        names = [_name(name) for name in course.order]
        if not course.clock:
            return names
        logical = self._columns[course.clock].type
        if logical == "timestamp":
            return [f"contextful_moment({names[0]})", *names[1:]]
        return [f"contextful_sortable({names[0]})", *names[1:]] if logical in {"string", None} else names

    def _bound(self, course: Course) -> Any:
        if not isinstance(course.since, str):
            return course.since
        return float(Decimal(course.since)) if self._numeric(course) else course.lowest_text

    def _numeric(self, course: Course) -> bool:
        """Whether a textual watermark stands for a number: a decimal's, which JSON has no other word for."""
        logical = self._columns[course.clock or ""].type
        return bool(logical and logical.startswith("decimal"))

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Give a statement its time, and its failure a tag."""
        self._deadline = self._clock.now() + self._source.timeout_ms
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning) as error:  # several statements in one are a warning to older Pythons
            raise self._failure(error) from None

    def _failure(self, error: Exception) -> ContextfulError:
        name = getattr(error, "sqlite_errorname", None) or ""
        said = f"{self._place}: {self._quoted(str(error))}"
        if name == "SQLITE_INTERRUPT":
            limit = f"{self._source.timeout_ms / 1000:g} s a statement"
            return ConnectorBoundHit(place=self._place, bound="call-deadline", limit=limit)
        if name in {"SQLITE_AUTH", "SQLITE_PERM"}:
            return AuthExpired(said)
        return Transient(said) if name.startswith(_BUSY) else Permanent(said)


def _name(name: str) -> str:
    """A name as SQLite never takes it for a text: what stands in double quotes and is no column, it does."""
    return "`" + name.replace("`", "``") + "`"


def _moment(value: Any) -> Any:
    """A value of an instant's column as it sorts; what is no instant is told when its row is read."""
    return _sortable(_FITTING_TIMESTAMP(value))


def _sortable(value: Any) -> Any:
    return sortable(value) if isinstance(value, str) else value


def _mark(value: Any) -> Any:
    """A value as a position holds it: what JSON has, and bytes in hexadecimal."""
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def _unmarked(mark: Any) -> Any:
    return bytes.fromhex(mark["hex"]) if isinstance(mark, dict) else mark


def _column(name: str, created: str, declared: str | None) -> SqlColumn:
    if declared:
        read = _READS.get(declared)
        return SqlColumn(name, declared, read and _where_it_fits(read))
    digits = _DECIMAL.match(created)
    if digits:
        precision, scale = int(digits[1]), int(digits[2] or 0)
        return SqlColumn(name, f"decimal({precision},{scale})" if scale <= precision <= 38 else None)
    logical = next((logical for words, logical in _TYPES if any(word in created for word in words)), None)
    return SqlColumn(name, logical, _READS.get(logical or ""))


def _where_it_fits(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`read` for a column of which the manifest says what it is: what it cannot read is the engine's to convert."""

    def fitting(value: Any) -> Any:
        try:
            return read(value)
        except ValueError:
            return value

    return fitting


def _bool(value: Any) -> Any:
    if value not in (0, 1):
        raise ValueError("0 or 1, as its column is declared a boolean")
    return bool(value)


def _timestamp(value: Any) -> Any:
    found = _NAIVE.fullmatch(value) if isinstance(value, str) else None
    if found:
        day, minute, second = found.groups()
        return f"{day}T{minute or '00:00'}{second or ':00'}Z"
    if not isinstance(value, str):
        raise ValueError("the text of an instant, as its column is declared; declare columns.<name>.type for another")  # noqa: TRY004 - only a ValueError is said with its row
    return value


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        raise ValueError("text, as its column is declared")  # noqa: TRY004 - only a ValueError is said with its row
    return value


def _json(value: Any) -> Any:
    try:
        return msgspec.json.decode(value) if isinstance(value, str) else value
    except msgspec.DecodeError as problem:
        raise ValueError(f"JSON, as its column is declared ({problem})") from None


_READS: Final[dict[str, Callable[[Any], Any]]] = {
    "bool": _bool, "timestamp": _timestamp, "string": _text, "json": _json,
}  # fmt: skip
_FITTING_TIMESTAMP: Final = _where_it_fits(_timestamp)
