"""The one wait of the serve process: it ends when a child has ended, when somebody asks for a stop, or in time."""

from __future__ import annotations

import os
import select
import signal
import time
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

if TYPE_CHECKING:
    from types import FrameType

STOPS: Final = (signal.SIGTERM, signal.SIGINT)


class Readable(Protocol):
    """What can be waited for by its descriptor."""

    def fileno(self) -> int:
        """The descriptor."""


class Wakes:
    """Hears signals for the block, in the main thread: TERM and INT ask for a stop, the second of them for haste."""

    def __init__(self) -> None:
        self._stops = 0
        self._standing: dict[signal.Signals, Any] = {}

    @property
    def stopping(self) -> bool:
        """Whether a stop was asked for."""
        return self._stops > 0

    @property
    def hurried(self) -> bool:
        """Whether it was asked for again."""
        return self._stops > 1

    def wait(self, seconds: float | None, *also: Readable) -> None:
        """Wait for a signal, for `also` to be readable, or for `seconds`; None waits for as long as it takes."""
        waited: list[int | Readable] = [self._reads, *also]
        ready, _, _ = select.select(waited, [], [], seconds)
        if self._reads in ready:
            os.read(self._reads, 4096)

    def sleep(self, seconds: float) -> None:
        """Wait `seconds` out, unless more of a stop is asked for than was before."""
        before, until = self._stops, time.monotonic() + seconds
        while self._stops == before and (left := until - time.monotonic()) > 0:
            self.wait(left)

    def __enter__(self) -> Self:
        """Begin to hear."""
        self._reads, self._writes = os.pipe()
        for end in (self._reads, self._writes):
            os.set_blocking(end, False)
        # Python writes a byte here on every signal, so that one that comes just before the wait ends it as well.
        self._former = signal.set_wakeup_fd(self._writes, warn_on_full_buffer=False)
        self._standing = {number: signal.signal(number, self._heard) for number in (*STOPS, signal.SIGCHLD)}
        return self

    def __exit__(self, *_: object) -> None:
        """Leave signals as they were."""
        for number, handler in self._standing.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._former)
        os.close(self._reads)
        os.close(self._writes)

    def _heard(self, number: int, _: FrameType | None) -> None:
        self._stops += number in STOPS
