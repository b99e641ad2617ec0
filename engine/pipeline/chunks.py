"""Windows of history: a span of a table's clock cut into half-open chunks, and which rows lie in one of them.

A bound is a whole number, a date or a moment, spelled as it was given; a date counts as its first instant, UTC, beside
clocks that are instants.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from engine import cursors, lateness
from engine.cursors import Admission, rank, shown, stored
from engine.errors import BackfillWindowUnusable, CursorPositionUnorderable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from engine.pipeline.declaration import Table

KIND: Final = "chunk"
"""What a chunk's owner scope begins with."""

MOST: Final = 100_000
"""Chunks of one plan: beyond it the windows are finer than any source needs."""

_DAY_MS: Final = 86_400_000
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Window:
    """The clock values from `start` on and below `end`."""

    start: Any
    end: Any

    @property
    def text(self) -> str:
        """The window as scopes and people read it."""
        return f"{self.start}..{self.end}"

    @classmethod
    def of(cls, text: str) -> Self:
        """The window that `text` spells."""
        start, _, end = text.partition("..")
        return cls(*((int(bound) if _NUMBER.fullmatch(bound) else bound) for bound in (start, end)))

    def covers(self, other: Window) -> bool:
        """Whether all of `other` lies within; False where the two have no order."""
        ranks = [_rank(each) for each in (self.start, other.start, other.end, self.end)]
        return len({ranked[0] for ranked in ranks}) == 1 and ranks == sorted(ranks)

    def overlaps(self, other: Window) -> bool:
        """Whether some clock value lies in both; False where the two have no order."""
        starts, ends = [_rank(each.start) for each in (self, other)], [_rank(each.end) for each in (self, other)]
        return len({ranked[0] for ranked in (*starts, *ends)}) == 1 and max(starts) < min(ends)

    def admit(self, clocks: Sequence[Any], *, table: str, field: str, place: str) -> Admission:
        """Which rows of a pull lie in the window: the others are not admitted, whichever side they lie on.

        Raise `CursorPositionUnorderable` for clocks without an order, among themselves or beside the window's bounds.
        """
        verdict = cursors.admit(clocks, floor=None, table=table, field=field, place=place)
        if not clocks:
            return verdict
        bounds, ranks = [rank(self.start), rank(self.end)], [rank(value) for value in clocks]
        if _kind(bounds[0]) != _kind(ranks[0]):
            bounds, ranks = [_rank(self.start), _rank(self.end)], [_rank(value) for value in clocks]
        kinds = {_kind(ranked) for ranked in (*bounds, ranks[0])}
        if len(kinds) > 1:
            found = f"{shown(clocks[0])} beside the window {self.text}"
            raise CursorPositionUnorderable(table=table, field=field, found=found, place=place)
        inside = [index for index, ranked in enumerate(ranks) if bounds[0] <= ranked < bounds[1]]  # type: ignore[operator] # of one kind, as just told
        admitted = None if len(inside) == len(clocks) else inside
        return Admission(admitted, len(clocks) - len(inside), verdict.lowest, verdict.highest)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One window of `table`, the unit a backfill lands whole or not at all."""

    table: str
    window: Window

    @property
    def scope(self) -> str:
        """The owner scope, one a window: two plans with the same window share its work (run.own.host-scope)."""
        return f"{KIND}:{self.table}:{self.window.text}"

    @classmethod
    def of(cls, scope: str) -> Chunk | None:
        """The chunk whose owner has that scope, None for an owner of another kind."""
        kind, _, rest = scope.partition(":")
        table, _, window = rest.partition(":")
        return cls(table, Window.of(window)) if kind == KIND else None


@dataclass(frozen=True, slots=True)
class Span:
    """What a backfill is asked for: the window, and what each chunk spans: milliseconds, or units of a number."""

    window: Window
    every: int

    @property
    def asked(self) -> list[Any]:
        """What tells spans apart: a date and its first instant are one, whatever has been learned of the clock."""
        return [_moment(self.window.start), _moment(self.window.end), self.every]

    def windows(self) -> Iterator[Window]:
        """The half-open windows that make up the span, in order; the last ends where the span does."""
        start, last = self.window.start, _rank(self.window.end)
        while True:
            end = start + self.every if isinstance(start, int) else lateness.later(start, by_ms=self.every)
            if _rank(end) >= last or _rank(end) <= _rank(start):  # or the calendar ends before
                yield Window(start, self.window.end)
                return
            yield Window(start, end)
            start = end


def spanned(table: Table, start: str, end: str, *, every: str | None, position: Any) -> Span:
    """The span that three texts ask for, spelled for the clock of `table`, which stands at `position`.

    Raise `BackfillWindowUnusable` naming what is wrong with which of them.
    """
    window = _window(table, start, end, position=position)
    number = isinstance(window.start, int)
    if every is None:
        return Span(window, 1)
    step = _step(every)
    if step is None or step[1] != number:
        expected = "a whole number above zero, such as 1000" if number else "a duration such as 6h, 1d or 7d"
        raise BackfillWindowUnusable(table=table.name, option="--every", found=every, expected=expected)
    dated = not number and all(_DATE.fullmatch(str(bound)) for bound in (window.start, window.end))
    if dated and step[0] % _DAY_MS:
        window = Window(*(_moment(bound) for bound in (window.start, window.end)))
    return Span(window, step[0])


def _window(table: Table, start: str, end: str, *, position: Any) -> Window:
    bounds = [_bound(table, option, text) for option, text in (("--from", start), ("--to", end))]
    declared = table.columns.get(str(table.incremental))
    at = position.get("at") if isinstance(position, dict) else None
    kinds = {_kind(rank(value)) for value in (*bounds, at) if value is not None}
    if "instant" in kinds or (declared and declared.type == "timestamp"):
        bounds = [_moment(bound) for bound in bounds]
    ranks = [_rank(bound) for bound in bounds]
    if at is not None and _kind(rank(at)) != ranks[0][0]:
        expected = f"a bound that orders with {shown(at)}, where the table stands"
        raise BackfillWindowUnusable(table=table.name, option="--from", found=start, expected=expected)
    if ranks[0][0] != ranks[1][0] or ranks[0] >= ranks[1]:
        expected = f"a bound after {start}, which is not in the window itself: it ends before --to"
        raise BackfillWindowUnusable(table=table.name, option="--to", found=end, expected=expected)
    return Window(*bounds)


def _bound(table: Table, option: str, text: str) -> Any:
    if _NUMBER.fullmatch(text):
        return int(text)
    if lateness.measurable(text):
        return text
    expected = "an instant such as 2026-01-31T06:00:00Z, a date such as 2026-01-31, or a whole number"
    raise BackfillWindowUnusable(table=table.name, option=option, found=text, expected=expected)


def _step(text: str) -> tuple[int, bool] | None:
    """The step and whether it is a number's."""
    found = re.fullmatch(r"(\d{1,15})(ms|s|m|h|d)?", text, re.ASCII)
    if found is None or int(found[1]) == 0:
        return None
    units = {None: 1, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": _DAY_MS}
    return int(found[1]) * units[found[2]], found[2] is None


def _moment(value: Any) -> Any:
    """A date as its first instant; anything else as it is."""
    plain = stored(value)
    return f"{plain}T00:00:00Z" if isinstance(plain, str) and _DATE.fullmatch(plain) else value


def _rank(value: Any) -> cursors.Rank:
    """The rank of a value, a date counting as its first instant."""
    return rank(_moment(value)) or ("none", 0)


def _kind(ranked: cursors.Rank | None) -> str | None:
    return ranked[0] if ranked else None
