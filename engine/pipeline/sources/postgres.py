"""Rows of a PostgreSQL database, read through a server-side cursor in one read-only snapshot.

Types land as they are: `numeric(p,s)` as a decimal, instants with a zone in UTC, `timestamp` without one taken as UTC,
`json` and arrays as JSON, `bytea` as bytes; what the corpus has no type for (uuid, inet, ranges, intervals, enums, a
`numeric` of any number of digits) as the text PostgreSQL writes for it.
"""

from __future__ import annotations

import math
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from engine import cursors
from engine.errors import AuthExpired, Config, ConnectorBoundHit, ContextfulError, Permanent, Transient
from engine.pipeline.sources.relations import SqlColumn, bare, in_utc

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.types.string import TextLoader
except ImportError as missing:
    raise Config(f"a postgresql source needs psycopg, which cannot be imported: {missing}",
                 remedy="install the extra postgres: pip install 'contextful[postgres]'") from missing  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from engine.pipeline.declaration import SqlSource
    from engine.pipeline.sources.relations import Course

_NUMERIC: Final = 1700
_JSON: Final = frozenset({114, 3802})
_TYPES: Final = {
    16: "bool", 17: "bytes", 20: "int64", 21: "int64", 23: "int64", 26: "int64", 700: "float64", 701: "float64",
    1082: "date", 1114: "timestamp", 1184: "timestamp", 114: "json", 3802: "json",
}  # fmt: skip
"""What the types land as, by their numbers, which never change. Any other lands as its text."""

_AS_TEXT: Final = ("interval", "time", "timetz", "inet", "cidr", "uuid", "json", "jsonb", "int4range", "int8range",
                   "numrange", "tsrange", "tstzrange", "daterange", "int4multirange", "int8multirange", "nummultirange",
                   "tsmultirange", "tstzmultirange", "datemultirange", "record")  # fmt: skip
_SETTINGS: Final = {"TimeZone": "UTC", "DateStyle": "ISO, YMD", "IntervalStyle": "iso_8601", "extra_float_digits": "1",
                    "bytea_output": "hex"}  # fmt: skip
_PASSING: Final = ("08", "40", "53", "55", "57", "58", "25P")
"""Classes of states that pass: broken connections, deadlocks, too many clients, shutdowns."""

_REFUSED: Final = ("28", "42501")
_CREDENTIAL: Final = re.compile(r"password|authentication|pg_hba\.conf|role \S+ (?:does not exist|is not permitted)")
_SPLIT_SECOND: Final = re.compile(r"(:\d\d\.\d{6})\d+", re.ASCII)
"""An instant's digits behind the microsecond, cut from a watermark: the server has none, and would round it up."""

_BY_CODE_POINT: Final = ' COLLATE "C"'
_ABSENT: Final = re.compile(r"database \S+ does not exist")


class PostgresRelation:
    """A query or table of one database; enter it to read."""

    def __init__(self, source: SqlSource, dsn: str, *, place: str, quoted: Callable[[str], str]) -> None:
        self._source, self._place, self._quoted = source, place, quoted
        self._dsn = dsn
        self._columns: dict[str, SqlColumn] = {}

    def __enter__(self) -> Self:
        """Connect and begin the transaction."""
        self._db = self._connected()
        try:
            self._begin()
        except BaseException:
            self._db.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection; what it had locked is free."""
        self._db.close()

    def columns(self, declared: Mapping[str, str]) -> tuple[SqlColumn, ...]:
        """The columns, typed by what the server says of them."""
        with self._failures():
            described = self._db.execute(f"SELECT * FROM {self._relation} LIMIT 0".encode(), ()).description or []  # noqa: S608 - the query is the user's
        found = tuple(self._column(column) for column in described)
        self._columns = {column.name: column for column in found}
        return tuple(_declared(column, declared.get(column.name)) for column in found)

    def hole(self, course: Course) -> tuple[Any, ...] | None:
        """Marks of a row with a null among them."""
        empty = " OR ".join(f"{_of(name)} IS NULL" for name in course.order)
        text = f"SELECT {self._marks(course)} FROM {self._relation} WHERE {empty} LIMIT 1"  # noqa: S608 - names are quoted
        with self._failures():
            return self._db.execute(text.encode(), ()).fetchone()

    def rows(self, course: Course, *, size: int) -> Iterator[tuple[Any, ...]]:
        """The rows, `size` at a time, through a cursor of the server's."""
        text, values = self._statement(course)
        with self._db.cursor(name="contextful") as cursor:
            with self._failures():
                cursor.execute(text.encode(), values)
            while True:
                with self._failures():
                    fetched = cursor.fetchmany(size)
                if not fetched:
                    return
                yield from fetched

    @property
    def _relation(self) -> str:
        if self._source.query:
            return f"({bare(self._source.query).replace('%', '%%')}) AS q"
        return ".".join(map(_name, (self._source.relation or "").split("."))) + " AS q"

    def _statement(self, course: Course) -> tuple[str, list[str]]:
        order = self._order(course)
        conditions, values = [], []
        texts = bool(course.clock) and order[0].endswith(_BY_CODE_POINT)
        if course.clock and course.since is not None:
            conditions.append(f"{order[0]} >= %s")
            values.append(course.lowest_text if texts else _SPLIT_SECOND.sub(r"\1", in_utc(course.since)))
        if course.clock and course.until is not None:
            # The end itself is read as well: the server rounds what it has no digits for, and a row with it.
            conditions.append(f"{order[0]} <= %s")
            values.append(course.highest_text if texts else in_utc(course.until))
        if course.after is not None:
            conditions.append(f"({', '.join(order)}) > ({', '.join(['%s'] * len(order))})")
            values += map(str, course.after)
        marks = "".join(f", ({column})::text" for column in order)
        text = f"SELECT q.*{marks} FROM {self._relation}"  # noqa: S608 - names are quoted, values are bound
        text += f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return text + (f" ORDER BY {', '.join(order)}" if order else ""), values

    def _order(self, course: Course) -> list[str]:
        """What rows are ordered by: a textual clock as positions are compared, by moments or else by code points."""
        order = [_of(name) for name in course.order]
        column = self._columns.get(course.clock or "")
        if column and column.type == "string" and not column.unbounded:
            order[0] = f"CAST({order[0]} AS timestamptz)" if self._instants(order[0]) else order[0] + _BY_CODE_POINT
        return order

    def _instants(self, clock: str) -> bool:
        """Whether the texts of `clock` are instants, as one of them tells: a stream keeps to one kind."""
        with self._failures():
            found = self._db.execute(f"SELECT {clock} FROM {self._relation} LIMIT 1".encode(), ()).fetchone()  # noqa: S608 - names are quoted
        ranked = cursors.rank(found[0]) if found else None
        return ranked is not None and ranked[0] == "instant"

    def _marks(self, course: Course) -> str:
        """The clock and the keys as the server's own text, which it takes back to the last digit."""
        return ", ".join(f"{_of(name)}::text" for name in course.order)

    def _column(self, column: psycopg.Column) -> SqlColumn:
        code = column.type_code
        if code == _NUMERIC:
            precision, scale = column.precision, column.scale or 0
            bounded = precision is not None and 0 <= scale <= precision <= 38
            logical = f"decimal({precision},{scale})" if bounded else "string"
            return SqlColumn(column.name, logical, None if bounded else _digits, unbounded=not bounded)
        known = self._db.adapters.types.get(code)
        if known is not None and known.array_oid == code:
            return SqlColumn(column.name, "json")
        return SqlColumn(column.name, _TYPES.get(code, "string"), _json if code in _JSON else None)

    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        try:
            told = {"application_name": "contextful", "connect_timeout": math.ceil(self._source.timeout_ms / 1000),
                    **conninfo_to_dict(self._dsn), "client_encoding": "utf8"}  # fmt: skip
        except psycopg.Error:
            raise Config(f"{self._place}: its dsn is no connection URI",
                         remedy="write postgresql://user:${PASSWORD}@host:5432/database") from None  # fmt: skip
        try:
            return psycopg.connect(**told)  # type: ignore[arg-type] # the names are libpq's own
        except psycopg.Error as error:
            raise self._unconnected(str(error)) from None

    def _begin(self) -> None:
        for name in _AS_TEXT:
            self._db.adapters.register_loader(name, TextLoader)
        settings = {**_SETTINGS, "statement_timeout": str(self._source.timeout_ms)}
        with self._failures():
            self._db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            self._db.read_only = True
            for name, value in settings.items():
                self._db.execute("SELECT set_config(%s, %s, true)", (name, value))

    def _unconnected(self, text: str) -> ContextfulError:
        """A failure to connect, told by its text: there is no state before there is a session."""
        said = f"{self._place}: {self._quoted(text)}"
        if _ABSENT.search(text):
            return Permanent(said)
        if _CREDENTIAL.search(text):
            return AuthExpired(said, remedy="check the source's credentials: the secrets that its dsn names")
        return Transient(said)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._failure(error) from None

    def _failure(self, error: psycopg.Error) -> ContextfulError:
        state = error.sqlstate or ""
        said = f"{self._place}: {self._quoted(error.diag.message_primary or str(error))}"
        if state == "57014":
            limit = f"{self._source.timeout_ms / 1000:g} s a statement"
            return ConnectorBoundHit(place=self._place, bound="call-deadline", limit=limit)
        if state.startswith(_REFUSED):
            return AuthExpired(said)
        if not state and isinstance(
            error, psycopg.DataError
        ):  # the client's own word, of a value Python has no room for
            return Permanent(said, remedy="cast its column to text in source.query, or leave such rows out there")
        broken = not state and isinstance(error, psycopg.OperationalError)
        return Transient(said) if broken or state.startswith(_PASSING) else Permanent(said)


def _declared(column: SqlColumn, logical: str | None) -> SqlColumn:
    """The column as the manifest wants it; what it holds is read alike."""
    if logical is None:
        return column
    return SqlColumn(column.name, logical, None if column.unbounded else column.read)


def _name(name: str) -> str:
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'


def _of(column: str) -> str:
    return f"q.{_name(column)}"


def _digits(value: Any) -> Any:
    return format(value, "f")


def _json(value: Any) -> Any:
    return msgspec.json.decode(value)
