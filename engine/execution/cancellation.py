"""One token a run: whatever waits, waits on it too (run.cancel.one-token)."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.clock import Clock
    from engine.errors import ContextfulError


class Cancellation:
    """Tripped once, with the reason every later check raises."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._reason: ContextfulError | None = None
        self._listeners: list[Callable[[], None]] = []

    def trip(self, reason: ContextfulError) -> None:
        """Stop whatever checks or waits; the first reason stands."""
        if self._reason is None:
            self._reason = reason
        self._event.set()
        for hear in tuple(self._listeners):
            hear()

    @property
    def tripped(self) -> bool:
        """Whether it is."""
        return self._reason is not None

    def check(self) -> None:
        """Raise the reason if the token is tripped; every wait does so before it begins."""
        if self._reason is not None:
            raise self._reason

    def wait(self, clock: Clock, milliseconds: float) -> None:
        """Wait on `clock`; raise the reason as soon as the token is tripped."""
        self.check()
        clock.wait(self._event, milliseconds)
        self.check()

    @contextmanager
    def heard(self, hear: Callable[[], None]) -> Iterator[None]:
        """Call `hear` when the token is tripped in the block, or has been; it may come twice."""
        self._listeners.append(hear)
        try:
            if self._reason is not None:
                hear()
            yield
        finally:
            self._listeners.remove(hear)
