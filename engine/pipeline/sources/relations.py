"""What a database is asked, whichever it is: which rows of a relation, in which order, from where on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from engine import cursors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_DATE: Final = "YYYY-MM-DD"
_ABOVE: Final = "A"
"""Above every text that begins with a digit."""


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """A column of the relation: the type it lands as, None where only its values tell.

    `read` turns what the driver gives into what lands, and raises `ValueError` saying what it expected. An `unbounded`
    number has more digits than a decimal may have, and lands as its text.
    """

    name: str
    type: str | None
    read: Callable[[Any], Any] | None = None
    unbounded: bool = False


@dataclass(frozen=True, slots=True)
class Course:
    """The rows of one walk: ordered by `clock` and then `keys`, all behind `after`, of `clock` those in a window.

    `after` holds the marks of the last row read: what the database itself has for its clock and its keys. The window
    goes from `since` on and ends before `until`, each None for none: no row in it is left out, and of those beside it
    as few as the database can tell are read. Which of them land is the engine's to say.
    """

    clock: str | None
    keys: tuple[str, ...]
    since: Any = None
    after: tuple[Any, ...] | None = None
    until: Any = None

    @property
    def order(self) -> tuple[str, ...]:
        """The columns whose values are a row's marks."""
        return (self.clock, *self.keys) if self.clock else self.keys

    @property
    def lowest_text(self) -> str:
        """A text that no spelling of an instant at or after `since` is below; any other text is its own.

        Instants of other offsets, precisions and separators sort unlike moments do, but none by as much as a day. At
        the start of a window a date stands for its first instant, as the engine takes it.
        """
        text = str(self.since)
        day = _day(text) if self.until is not None or len(text) > len(_DATE) else None
        if day is None:
            return text
        return (day - timedelta(days=1)).isoformat() if day > date.min else ""

    @property
    def highest_text(self) -> str:
        """A text that every spelling of an instant before `until` is below; any other text is its own."""
        text = str(self.until)
        day = _day(text)
        if day is None:
            return text
        return (day + timedelta(days=2)).isoformat() if day < date.max - timedelta(days=2) else _ABOVE


class Session(Protocol):
    """A relation opened in one read-only transaction: all of it is read as it stood at one moment."""

    def columns(self, declared: Mapping[str, str]) -> tuple[SqlColumn, ...]:
        """The columns of the relation, in order, of the `declared` type where one is declared."""

    def hole(self, course: Course) -> tuple[Any, ...] | None:
        """The marks of a row that has no place in the order: a null or foreign clock, a null in a key."""

    def rows(self, course: Course, *, size: int) -> Iterator[tuple[Any, ...]]:
        """The rows of `course`, fetched `size` at a time: the values of all columns, behind them the row's marks."""


class Opened(Protocol):
    """A context that opens a session and closes it.

    Raise `Transient` for a connection that broke, `AuthExpired` for a refused credential, `ConnectorBoundHit` for a
    statement that took too long, `Permanent` with the database's own words for one it does not take.
    """

    def __enter__(self) -> Session:
        """Open it."""

    def __exit__(self, *_: object) -> None:
        """Close it."""


def bare(query: str) -> str:
    """A SELECT without the semicolon people end it with, fit to stand in parentheses whatever comment it ends with."""
    return query.strip().rstrip(";").rstrip() + "\n"


def in_utc(value: Any) -> str:
    """`value` as text, an instant as UTC has it: a column of dates or of times without a zone forgets the offset."""
    text = str(value)
    ranked = cursors.rank(text)
    if ranked is None or ranked[0] != "instant":
        return text
    return f"{sortable(text).rstrip('.')}Z"


def sortable(text: str) -> str:
    """`text` so spelled that instants sort as moments do: in UTC, their fraction without the zeros it ends with."""
    ranked = cursors.rank(text)
    if ranked is None or ranked[0] != "instant":
        return text
    seconds, fraction = ranked[1]
    return f"{datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()}.{fraction}"


def twice(names: Sequence[str]) -> str | None:
    """The first name that stands twice."""
    return next((name for at, name in enumerate(names) if name in names[:at]), None)


def _day(text: str) -> date | None:
    """The day of an instant, in UTC, or of a date; None of any other text."""
    ranked = cursors.rank(text)
    if ranked is not None and ranked[0] == "instant":
        return datetime.fromtimestamp(ranked[1][0], UTC).date()
    try:
        return date.fromisoformat(text) if len(text) == len(_DATE) else None
    except ValueError:
        return None
