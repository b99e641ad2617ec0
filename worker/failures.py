"""What D1's error texts say: which statement-level code stands in them, and whether anything is known. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

PROBE: Final = "contextful-probe"
"""The path whose error tells that all statements before the probe went through."""

_CODE = re.compile(r"^(?P<text>.*?): (?P<code>SQLITE_\w+)(?: \(extended: (?P<extended>\w+)\))?$", re.DOTALL)
_PREFIX = re.compile(r"^(?:Error: )?D1_\w*ERROR: ")
_OF_THE_STATEMENT = frozenset(
    f"SQLITE_{name}" for name in ("ERROR", "CONSTRAINT", "TOOBIG", "MISMATCH", "AUTH", "RANGE", "MISUSE", "PERM")
)
_WITHOUT_CODE = ("Wrong number of parameter bindings", "To execute a transaction")


@dataclass(frozen=True, slots=True)
class Failure:
    """One of D1's errors: SQLite's text, and its code where the statement itself was refused."""

    text: str
    code: str | None

    @property
    def refused(self) -> bool:
        """Whether a statement failed, so that its batch left nothing; otherwise the outcome is unknown."""
        return self.code is not None

    @property
    def constraint(self) -> bool:
        """Whether a constraint refused it."""
        return bool(self.code and self.code.startswith("SQLITE_CONSTRAINT"))

    def body(self, statement: int | None) -> dict[str, Any]:
        """The answer that names it and the index of its statement."""
        kind = "constraint" if self.constraint else "error"
        return {kind: self.code, "text": self.text, "statement": statement}


def failure(message: str) -> Failure:
    """Read one of D1's error messages."""
    text = _PREFIX.sub("", message)
    if match := _CODE.match(text):
        code = match["code"]
        return Failure(match["text"], (match["extended"] or code) if code in _OF_THE_STATEMENT else None)
    return Failure(text, "SQLITE_ERROR" if text.startswith(_WITHOUT_CODE) else None)
