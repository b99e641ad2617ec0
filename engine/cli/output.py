"""What commands print: one JSON document or plain text on standard output, everything else on standard error."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from engine.errors import Config, NamedError, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from engine.errors import ContextfulError

WIDEST_CELL: Final = 60
"""Characters of the widest cell of a printed table."""


@named
class OutputUnwritable(NamedError, Config):
    """Standard output takes no more of the answer, as a file on a full disk."""

    reason: str
    says = "standard output cannot be written: {reason}"
    remedy = "what the command did stands, its answer is not whole; make room and ask again"


@contextmanager
def written() -> Iterator[None]:
    """Raise `OutputUnwritable` where standard output refuses what the block writes.

    A reader that has seen enough, as `head` has, refuses nothing: the rest goes nowhere, the command ends as it would.
    """
    try:
        yield
    except BrokenPipeError:
        abandoned()
    except OSError as failure:
        raise OutputUnwritable(reason=failure.strerror or str(failure)) from failure


def opened() -> None:
    """Give a stream that the caller closed a place to go: nothing else may get its number, and nobody reads it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - open as long as we are


def abandoned() -> None:
    """Send to nowhere what standard output still holds, which nobody takes: Python would try it again as it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def document(value: Any) -> None:
    """Print `value` as the one JSON document of the command. Raise `OutputUnwritable`."""
    with written():
        sys.stdout.write(json_text(value) + "\n")


def json_text(value: Any) -> str:
    """`value` as one line of JSON that standard output can carry: escaped where it cannot carry the text as it is."""
    told = json.dumps(value, ensure_ascii=False, default=str)
    try:
        told.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return json.dumps(value, default=str)
    return told


def text(line: str = "") -> None:
    """Print a line of the command's answer. Raise `OutputUnwritable`."""
    with written():
        sys.stdout.write(_printable(line) + "\n")


def say(line: str) -> None:
    """Tell the reader something that is no part of the answer; where nobody can be told, the work goes on."""
    with suppress(OSError):
        sys.stderr.write(_printable(line) + "\n")
        sys.stderr.flush()


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows under headings, each column as wide as its widest cell."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    rule = ["-" * width for width in widths]
    for row in ([*headings], rule, *cells):
        text("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def refused(error: ContextfulError) -> str:
    """Return an error as standard error shows it: its name, its sentence, the next step."""
    return f"{type(error).__name__}: {error}"


def counted(count: int, thing: str) -> str:
    """A count with the name of what is counted, in the plural where it belongs."""
    return f"{count:,} {thing}{'s' * (count != 1)}"


def size(count: int) -> str:
    """A count of bytes as people read it."""
    for unit, scale in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"


def _cell(value: Any) -> str:
    shown = "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    shown = " ".join(_printable(shown).split())
    return shown if len(shown) <= WIDEST_CELL else f"{shown[: WIDEST_CELL - 1]}…"


def _printable(line: str) -> str:
    """Lone surrogates and control characters escaped: a row must not move the reader's cursor."""
    if line.isprintable():
        return line
    kept = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in line)
    return kept.encode("utf-8", "backslashreplace").decode()
