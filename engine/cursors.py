"""Positions: what a clock value is worth, which rows a poll admits, where the frontier stands.

A watermark is `{"field": name, "at": value}` (run.advance.watermark-shape). Values order as numbers, as instants
(RFC 3339 with a zone, compared as moments whatever their offset or precision), or as plain text; a stream keeps to one
of the three, since no order holds across them (run.advance.unorderable-position).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from engine.errors import CursorFieldMismatch, CursorPositionUnorderable
from engine.shapes import CursorKind

if TYPE_CHECKING:
    from collections.abc import Sequence

_INSTANT: Final = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:?\d\d)", re.ASCII)
_ZULU: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", re.ASCII)

_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")

Rank = tuple[str, Any]
"""A value's kind and its place among the values of that kind."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Which rows of a pull a poll admits: their indices, or None for all; the extremes of every fetched clock."""

    admitted: list[int] | None
    not_admitted: int
    lowest: Any
    highest: Any


def watermark(field: str, at: Any) -> dict[str, Any]:
    """Return the position that stands at clock value `at` of column `field`."""
    return {"field": field, "at": at}


def since(position: Any, *, table: str, field: str | None) -> Any:
    """The clock value a stored position stands at, or None.

    Raise `CursorFieldMismatch` when it is another column's watermark, before any request leaves
    (run.advance.field-rename).
    """
    if field is None or position is None:
        return None
    stored = position.get("field") if isinstance(position, dict) else None
    if stored is None:
        # Turning incremental on over a position of another kind starts from none (run.advance.turning-incremental-on).
        return None
    if stored != field:
        raise CursorFieldMismatch(table=table, stored=str(stored), declared=field)
    return position.get("at")


def admit(clocks: Sequence[Any], *, floor: Any, table: str, field: str, place: str) -> Admission:
    """Judge a pull's clock values against `floor`: at or after it is admitted (run.advance.inclusive-boundary).

    Raise `CursorPositionUnorderable` naming the row for a value that cannot be ordered, or is of another kind than the
    rows before it or the floor.
    """
    if not clocks:
        return Admission(None, 0, None, None)
    if ends := _ends_of_one_spelling(clocks, floor):
        return _split(clocks, bar=floor, lowest=ends[0], ends=ends)
    ranks = _ranks(clocks, table=table, field=field, place=place)
    bar = None if floor is None else rank(floor)
    if floor is not None and (bar is None or bar[0] != ranks[0][0]):
        raise _mixed(table, field, place, found=f"{shown(clocks[0])} beside the position {shown(floor)}")
    lowest = min(ranks)
    ends = clocks[ranks.index(lowest)], clocks[ranks.index(max(ranks))]
    return _split(ranks, bar=bar, lowest=lowest, ends=ends)


def comparable(one: Any, other: Any) -> bool:
    """Whether two clock values have an order: both of one kind, or one of them None, which is below all."""
    ranks = [rank(value) for value in (one, other) if value is not None]
    return None not in ranks and len({ranked[0] for ranked in ranks if ranked}) < 2


def later(ours: Any, theirs: Any) -> Any:
    """The higher of two clock values; None is below all (run.advance.frontier).

    Raise `CursorPositionUnorderable` when the two are of different kinds.
    """
    if ours is None or theirs is None:
        return theirs if ours is None else ours
    mine, other = rank(ours), rank(theirs)
    if mine is None or other is None or mine[0] != other[0]:
        raise _mixed("the table", "its position", "the walk", found=f"{shown(ours)} beside {shown(theirs)}")
    return theirs if other > mine else ours


def later_position(standing: Any, reached: Any) -> Any:
    """The higher of two watermark positions (run.advance.concurrency-by-kind).

    A standing position that is no watermark of the reached one's field counts for nothing: the table has just turned
    incremental (run.advance.turning-incremental-on).
    """
    if reached is None:
        return standing
    if not isinstance(standing, dict) or standing.get("field") != reached["field"]:
        return reached
    return watermark(reached["field"], later(standing["at"], reached["at"]))


def kind_of(*, incremental: str | None, declared: CursorKind) -> CursorKind:
    """The cursor kind of a table: monotonic with `incremental`, else its source's (run.advance.cursor-kind)."""
    return CursorKind.MONOTONIC if incremental else declared


def stored(value: Any) -> Any:
    """A clock value as JSON: what Arrow gives as moments and decimals becomes text and numbers again.

    A decimal of more digits than a float keeps becomes the next float below it, so that no row above it is passed over.
    """
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else _float_below(value)
    return value


def rank(value: Any) -> Rank | None:
    """The rank of one clock value; None for what has no order: null, truth values, empty text, nested values.

    Nor have NaN and the infinities, which no position could hold. A float counts as the digits it is written with,
    as a decimal beside it does.
    """
    if isinstance(value, str):
        return _text_rank(value) if value else None
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | Decimal):
        return "number", value
    if isinstance(value, float):
        return ("number", Decimal(repr(value))) if math.isfinite(value) else None
    if isinstance(value, datetime):
        return _text_rank(str(stored(value)))
    if isinstance(value, date):
        return "text", value.isoformat()
    return None


def shown(value: Any) -> str:
    """A clock value as an error shows it."""
    text = "null" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _float_below(value: Decimal) -> float:
    """`value` as a float where its digits fit one, else the next float below it."""
    near = float(value)
    return near if Decimal(repr(near)) <= value else math.nextafter(near, -math.inf)


def _split(ranks: Sequence[Any], *, bar: Any, lowest: Any, ends: tuple[Any, Any]) -> Admission:
    """Part the rows at `bar` by their `ranks`, the least of which is `lowest`; `ends` are the extreme clock values."""
    if bar is None or lowest >= bar:
        return Admission(None, 0, *ends)
    admitted = [index for index, value in enumerate(ranks) if value >= bar]
    return Admission(admitted, len(ranks) - len(admitted), *ends)


def _ranks(clocks: Sequence[Any], *, table: str, field: str, place: str) -> list[Rank]:
    ranks: list[Rank] = []
    for number, value in enumerate(clocks, start=1):
        ranked = rank(value)
        where = f"{place}, row {number}"
        if ranked is None:
            raise CursorPositionUnorderable(table=table, field=field, found=shown(value), place=where)
        if ranks and ranked[0] != ranks[0][0]:
            raise _mixed(table, field, where, found=f"{shown(value)} after {shown(clocks[0])}")
        ranks.append(ranked)
    return ranks


def _ends_of_one_spelling(clocks: Sequence[Any], floor: Any) -> tuple[str, str] | None:
    """The lowest and the highest clock where all, and the floor, are `Z` instants of one spelling.

    Their text then orders as they do, and none need be parsed: the spelling is told by turning every digit into 0, and
    only the extremes, which become positions, are read closely.
    """
    bar = () if floor is None else (floor,)
    spelled = [*clocks, *bar]
    if set(map(type, spelled)) != {str}:
        return None
    ends = min(clocks), max(clocks)
    if not all(_ZULU.fullmatch(text) and _text_rank(text)[0] == "instant" for text in (*ends, *bar)):
        return None
    written = ("\n".join(spelled) + "\n").encode("utf-8", "surrogatepass").translate(_DIGITS)
    return ends if written == written[: written.index(b"\n") + 1] * len(spelled) else None


def _text_rank(text: str) -> Rank:
    found = _INSTANT.fullmatch(text)
    if found is None:
        return "text", text
    day, time, fraction, zone = found.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{time}{'+00:00' if zone in 'Zz' else zone}")
    except ValueError:
        return "text", text
    # Text orders a fraction of any length exactly: trailing zeros aside, its digits compare as the number does.
    return "instant", (moment.timestamp(), (fraction or "").rstrip("0"))


def _mixed(table: str, field: str, place: str, *, found: str) -> CursorPositionUnorderable:
    return CursorPositionUnorderable(table=table, field=field, found=found, place=place)
