"""JSON from outside, read only where it is not nested too deep. Standard library only: the Worker reads with it.

Brackets by the thousand within one another end the Worker's interpreter, and every other request with the one that
sent them. So they are counted before anything is parsed.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

DEEPEST: Final = 100
"""How deep such a text may go. What is sent in earnest goes to five."""

_BETWEEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[^"\[\]{}]+', re.DOTALL)
"""What lies between the brackets: texts, whatever they hold, one that nothing ends too; and everything else."""


def parsed(content: bytes, *, constant: Callable[[str], Any] | None = None) -> Any:
    """The document that the UTF-8 text `content` is; `constant` stands for NaN and the infinities.

    Raise `ValueError` for what is none, or goes deeper than `DEEPEST`.
    """
    text = content.decode()
    if _may_be_deep(text) and depth(text) > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} deep")
    return json.loads(text, parse_constant=constant)


def depth(text: str) -> int:
    """How deep the JSON `text` goes, at least as deep as a parser that stops at the first mistake in it."""
    return max(accumulate(1 if each in "[{" else -1 for each in _BETWEEN.sub("", text)), default=0)


def _may_be_deep(text: str) -> bool:
    # Whatever opens so few brackets need not be walked through: most of what comes.
    return text.count("[") + text.count("{") > DEEPEST
