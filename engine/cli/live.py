"""A run as it is seen on a terminal: one line a table that moves."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Self, cast

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from engine.cli.watching import Lines, Pace

if TYPE_CHECKING:
    from rich.progress import TaskID

    from engine.errors import ContextfulError
    from engine.pipeline.walk import Landing
    from engine.runs import RunRow


@dataclass(frozen=True, slots=True)
class _Terminal:
    """A terminal that may be closed at any time: what it takes no more is dropped, and the run goes on."""

    stream: IO[str]

    def write(self, text: str) -> int:
        """Show `text` if it can be."""
        with suppress(OSError):
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Let what was shown through."""
        with suppress(OSError):
            self.stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class Live(Lines):
    """Shows pages, rows, bytes, rate and retries of each table while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self._progress_bar = Progress(
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[told]}", markup=False),
            TimeElapsedColumn(),
            console=Console(file=cast("IO[str]", _Terminal(sys.stderr)), stderr=True),
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._progress_bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last state of every line on the terminal."""
        self._progress_bar.stop()

    def opened(self, run: RunRow) -> None:
        """Begin a line."""
        self._pace, self._run = Pace(), run
        self._task = self._progress_bar.add_task(str(run.table), total=None, told="opening")

    def landed(self, run: RunRow, landing: Landing) -> None:  # noqa: ARG002 - the run's counts say it all
        """Move the line."""
        self._run, self._pace.waiting = run, ""
        self._progress()

    def closed(self, run: RunRow) -> None:
        """End the line."""
        self._run, self._pace.waiting = run, ""
        self._progress()
        if self._task is not None:
            self._progress_bar.update(self._task, total=1, completed=1)

    def retrying(self, step: str, attempt: int, failure: ContextfulError, delay_ms: int) -> None:
        """Count a retry, and name what is waited out: a line has no room for more."""
        self._pace.retries += 1
        self._pace.waiting = f"{step} attempt {attempt}: {type(failure).__name__}, again in {delay_ms / 1000:.1f} s"
        self._progress()

    def _progress(self) -> None:
        if self._task is not None and self._run is not None:
            self._progress_bar.update(self._task, told=self._pace.told(self._run))
