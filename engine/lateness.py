"""Rows that arrive late: a poll re-reads from its position minus a window, and the position stays where it stands.

Only moments can be measured against a window: instants with a zone, moments without one, dates. A number says nothing
about how long it took to grow, and seconds cannot be told from milliseconds by looking; such a clock is refused.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Any, Final

from engine.cursors import shown, stored
from engine.errors import LatenessUnmeasurable

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT: Final = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)(?P<between>[Tt ])(?P<time>\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d+))?"
    r"(?P<zone>[Zz]|[+-]\d\d:?\d\d)?",
    re.ASCII,
)


def floor(at: Any, *, window_ms: int, table: str, field: str) -> Any:
    """The clock value `window_ms` before the position `at`, spelled as it is (run.advance.allowed-lateness).

    Raise `LatenessUnmeasurable` for a position that is no moment. Of a date it is the whole day that the window reaches
    into.
    """
    if not window_ms or at is None:
        return at
    refuse_unmeasurable(at, table=table, field=field, place="the position")
    return _earlier(at, window_ms)


def later(at: str, *, by_ms: int) -> str:
    """The moment or date `by_ms` after `at`, spelled as it is; `at` itself where the calendar ends before."""
    moved = _earlier(at, -by_ms)
    return at if moved is None else moved


def measurable(text: str) -> bool:
    """Whether `text` spells a moment or a date."""
    return _earlier(text, 0) is not None


def refuse_unmeasurable(at: Any, *, table: str, field: str, place: str) -> None:
    """Raise `LatenessUnmeasurable` for a clock value that no window can be taken from."""
    value = stored(at)
    if not isinstance(value, str) or _earlier(value, 0) is None:
        raise LatenessUnmeasurable(table=table, field=field, found=shown(value), place=place)


def _earlier(at: str, window_ms: int) -> str | None:
    try:
        if _DATE.fullmatch(at):
            begins = datetime.combine(date.fromisoformat(at), datetime.min.time())
            return _back(begins, timedelta(milliseconds=window_ms)).date().isoformat()
        found = _MOMENT.fullmatch(at)
        return None if found is None else _moment(found, window_ms)
    except ValueError:
        return None


def _moment(found: re.Match[str], window_ms: int) -> str:
    """The moment in the spelling of the one `found`: its digits of a second, however many, are kept exactly."""
    fraction = found["fraction"] or ""
    digits = max(len(fraction), 3) if window_ms % 1000 else len(fraction)
    ticks = int(fraction.ljust(digits, "0") or "0") - window_ms * 10**digits // 1000
    seconds, ticks = divmod(ticks, 10**digits)
    at = datetime.fromisoformat(f"{found['day']}T{found['time']}")
    whole = _back(at, timedelta(seconds=-seconds)).isoformat(sep=found["between"], timespec="seconds")
    return whole + (f".{ticks:0{digits}}" if digits else "") + (found["zone"] or "")


def _back(at: datetime, window: timedelta) -> datetime:
    """`window` before `at`, or the first moment there is."""
    try:
        return at - window
    except OverflowError:
        return datetime.min
