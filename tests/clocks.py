"""A clock that stands where a test says, and moves when somebody waits on it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

START: Final = 1_800_000_000_000

MANY: Final = 5_000
"""Waits after which a test is told that what it waits for never comes."""


class SettableClock:
    """An `engine.clock.Clock` whose waits cost no time: each moves the instant by what it waited for.

    Where several threads wait for one another, `standing` keeps the instant still, or they would pass days.
    """

    def __init__(self, start: int = START) -> None:
        self.waits: list[float] = []
        self._now = start
        self._stands = False
        self._interruption: BaseException | None = None
        self._lock = threading.Lock()

    def now(self) -> int:
        with self._lock:
            return self._now

    def elapsed(self) -> int:
        return self.now()

    def advance(self, milliseconds: int) -> None:
        with self._lock:
            self._now += milliseconds

    def wait(self, event: threading.Event, milliseconds: float) -> bool:
        with self._lock:
            self.waits.append(milliseconds)
            assert len(self.waits) < MANY, "waits without end"
            interruption, self._interruption = self._interruption, None
            if interruption:
                raise interruption
            if not self._stands:
                self._now += max(int(milliseconds), 0)
        return event.wait(0.001)

    def interrupt(self, by: BaseException) -> None:
        """Raise `by` out of the next wait: its process ends there."""
        self._interruption = by

    @contextmanager
    def standing(self) -> Iterator[None]:
        self._stands = True
        try:
            yield
        finally:
            self._stands = False
