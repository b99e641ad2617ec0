"""Durations as a program writes them: "500ms", "30s", "2h"."""

from __future__ import annotations

import re
from typing import Final

from engine.errors import DurationSpelling

_SPELLING: Final = re.compile(r"(\d{1,12})(ms|s|m|h|d)", re.ASCII)
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(text: str, *, place: str) -> int:
    """Milliseconds of a duration such as `2h`. Raise `DurationSpelling` for another spelling, and for none."""
    match = _SPELLING.fullmatch(text)
    found = int(match[1]) * _UNIT_MS[match[2]] if match else 0
    if not found:
        raise DurationSpelling(place=place, text=text)
    return found
