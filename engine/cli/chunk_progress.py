"""How a backfill gets on, told on standard error: a line a chunk, or one line that moves on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

from engine.cli import output

if TYPE_CHECKING:
    from engine.errors import ContextfulError
    from engine.pipeline.backfill import Chunked
    from engine.pipeline.walk import Landing
    from engine.runs import RunRow


class ChunkLines:
    """Says of each chunk how it ended, and how many have landed."""

    def __init__(self) -> None:
        self._rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def opened(self, run: RunRow) -> None:
        """A chunk says nothing as it begins: there may be thousands."""

    def landed(self, run: RunRow, landing: Landing) -> None:
        """Nor page by page."""

    def closed(self, run: RunRow) -> None:
        """Its end is told with its place in the plan."""

    def retrying(self, step: str, attempt: int, failure: ContextfulError, delay_ms: int) -> None:
        """Say what is waited for."""
        output.say(f"{step} attempt {attempt}: {failure}; again in {delay_ms / 1000:.1f} s")

    def chunked(self, chunk: Chunked, *, done: int, total: int) -> None:
        """Say how the chunk ended."""
        self._rows += chunk.rows
        window = f"{chunk.planned.chunk.table} {chunk.planned.chunk.window.text}"
        output.say(f"{window}: {_came_to(chunk)}; {_far(done, total, self._rows)}")


class MovingLine(ChunkLines):
    """One line that moves: chunks done, rows landed, and the chunk that is at work."""

    def __init__(self) -> None:
        super().__init__()
        self._far = _far(0, 0, 0)

    def __exit__(self, *_: object) -> None:
        """Leave the last state on the terminal."""
        sys.stderr.write("\n")

    def opened(self, run: RunRow) -> None:
        """Name the chunk."""
        self._draw(f"{run.table} {run.chunk}")

    def landed(self, run: RunRow, landing: Landing) -> None:  # noqa: ARG002 - the run's counts say it all
        """Say how far the chunk is."""
        self._draw(f"{run.table} {run.chunk}: {output.counted(run.rows, 'row')}")

    def retrying(self, step: str, attempt: int, failure: ContextfulError, delay_ms: int) -> None:
        """Name what is waited out: a line has no room for more."""
        self._draw(f"{step} attempt {attempt}: {type(failure).__name__}, again in {delay_ms / 1000:.1f} s")

    def chunked(self, chunk: Chunked, *, done: int, total: int) -> None:
        """Move the line; what has not landed keeps one of its own."""
        self._rows += chunk.rows
        self._far = _far(done, total, self._rows)
        window = f"{chunk.planned.chunk.table} {chunk.planned.chunk.window.text}"
        self._draw(f"{window}: {_came_to(chunk)}")
        if not chunk.done:
            sys.stderr.write("\n")

    def _draw(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{self._far}  {text}")
        sys.stderr.flush()


def watching() -> ChunkLines:
    """Whatever tells of chunks here: live where standard error is a terminal, lines elsewhere."""
    return MovingLine() if sys.stderr.isatty() else ChunkLines()


def _far(done: int, total: int, rows: int) -> str:
    return f"{done:,} of {output.counted(total, 'chunk')} done, {output.counted(rows, 'row')}"


def _came_to(chunk: Chunked) -> str:
    if chunk.refusal is not None:
        return type(chunk.refusal).__name__
    if chunk.run is not None and not chunk.done:
        return str(chunk.run.status)
    return f"{output.counted(chunk.rows, 'row')} landed"
