"""How a run gets on, told on standard error: lines, or live on a terminal."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from engine.cli import output

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from engine.errors import ContextfulError
    from engine.pipeline.walk import Landing
    from engine.runs import RunRow

EVERY_S: Final = 2.0
"""How often a run that is not watched on a terminal says how far it is."""


@dataclass(slots=True)
class Pace:
    """How fast a run goes: what it has landed since it opened, and how often it tried again."""

    opened: float = field(default_factory=time.monotonic)
    retries: int = 0
    waiting: str = ""

    def told(self, run: RunRow) -> str:
        """Pages, rows, bytes, rows a second and retries."""
        seconds = max(time.monotonic() - self.opened, 0.001)
        parts = [
            output.counted(run.batches, "page"),
            output.counted(run.rows, "row"),
            output.size(run.bytes),
            f"{run.rows / seconds:,.0f} rows/s",
            *([f"{self.retries} retr{'y' if self.retries == 1 else 'ies'}"] if self.retries else []),
            *([self.waiting] if self.waiting else []),
        ]
        return ", ".join(parts)


class Lines:
    """Tells of a run in plain lines: one as it opens, one as it ends, and between them one every two seconds."""

    def __init__(self) -> None:
        self._pace = Pace()
        self._run: RunRow | None = None
        self._said = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def opened(self, run: RunRow) -> None:
        """Say that the run began."""
        self._pace, self._run, self._said = Pace(), run, time.monotonic()
        output.say(f"{run.table}: run {run.run_id} opened")

    def landed(self, run: RunRow, landing: Landing) -> None:  # noqa: ARG002 - the run's counts say it all
        """Say how far the run is, if it has not been said lately."""
        self._run, self._pace.waiting = run, ""
        self._progress()

    def retrying(self, step: str, attempt: int, failure: ContextfulError, delay_ms: int) -> None:
        """Count a retry, and say what is waited for."""
        self._pace.retries += 1
        self._pace.waiting = f"{step} attempt {attempt}: {failure}; again in {delay_ms / 1000:.1f} s"
        self._progress()

    def closed(self, run: RunRow) -> None:
        """Say how the run ended."""
        self._pace.waiting = ""
        output.say(f"{run.table}: run {run.run_id} {run.status}: {self._pace.told(run)}")

    def _progress(self) -> None:
        if self._run is not None and time.monotonic() - self._said >= EVERY_S:
            self._said = time.monotonic()
            output.say(f"{self._run.table}: {self._pace.told(self._run)}")


def watching() -> AbstractContextManager[Lines]:
    """Whatever tells of runs here: live where standard error is a terminal, lines elsewhere."""
    if sys.stderr.isatty():
        from engine.cli.live import Live

        return Live()
    return Lines()
