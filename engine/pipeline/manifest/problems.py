"""What is wrong with a manifest: where it stands, what was found there and what is allowed."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any, Final

Loc = tuple[str | int, ...]
"""Where a value stands: keys and list positions from the top of the file."""

MISSING: Final = object()
"""Stands for a required key that is absent."""

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_SHOWN_CHARS: Final = 60
_DEEPEST: Final = 40


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong at `loc`, said as what was found and what is allowed."""

    loc: Loc
    found: str
    allowed: str

    def told(self, document: Mapping[str, Any]) -> str:
        """The problem as one line, its key path spelled with the names `document` gives."""
        return f"{key_path(self.loc, document)}: found {self.found}; allowed: {self.allowed}"


def key_path(loc: Loc, document: Mapping[str, Any]) -> str:
    """`loc` as a reader finds it: `pipeline[0] "issues".source.paginate.by`."""
    path = ""
    here: Any = document
    for part in loc:
        here = _inside(here, part)
        if isinstance(part, int):
            path += f"[{part}]{_label(here)}"
        else:
            path += ("." if path else "") + (part if _BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False))
    return path


def unknown_key(loc: Loc, known: Iterable[str]) -> Problem:
    """A key that stands where none of that name is known; the nearest known one is suggested."""
    names = sorted(known)
    near = difflib.get_close_matches(str(loc[-1]).lower(), names, n=1)
    found = f'an unknown key (did you mean "{near[0]}"?)' if near else "an unknown key"
    return Problem(loc, found, ", ".join(names))


def shown(value: Any) -> str:
    """`value` as the file spells it, cut short; tables and lists by what they are."""
    if value is MISSING:
        return "nothing"
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, datetime | date | time):
        return f"the unquoted date or time {value.isoformat()}"
    if isinstance(value, int) and value.bit_length() > 256:
        return "a very large integer"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def found_at(loc: Loc, value: Any) -> str:
    """`value` as an error about `loc` shows it: a dsn not at all, since it may hold a password."""
    return "a text that is not shown here" if loc[-1:] == ("dsn",) and isinstance(value, str) else shown(value)


def leaves(value: Any, *, loc: Loc = ()) -> Iterator[tuple[Loc, Any]]:
    """Every value below `value` that is neither a table nor a list, with its place.

    What lies absurdly deep is left out. Walks without recursion: dotted keys nest deeper than Python's stack allows.
    """
    waiting: list[tuple[Loc, Any]] = [(loc, value)]
    while waiting:
        at, here = waiting.pop()
        inner: Iterable[tuple[str | int, Any]] = ()
        if isinstance(here, Mapping):
            inner = here.items()
        elif isinstance(here, list):
            inner = enumerate(here)
        else:
            yield at, here
        if len(at) - len(loc) < _DEEPEST:
            waiting.extend(reversed([((*at, part), below) for part, below in inner]))


def _inside(value: Any, part: str | int) -> Any:
    if isinstance(value, Mapping):
        return value.get(part)
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return value[part]
    return None


def _label(value: Any) -> str:
    if not isinstance(value, Mapping):
        return ""
    name = value.get("id", value.get("name"))
    return f" {shown(name)}" if isinstance(name, str) else ""
