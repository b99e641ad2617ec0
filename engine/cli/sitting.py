"""Sitting out the instant that a scope waits for."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from engine.cli import output
from engine.clock import instant

if TYPE_CHECKING:
    from collections.abc import Callable

SLICE_S: Final = 0.1
"""How long a wait sleeps before it looks again."""


@dataclass(slots=True)
class SittingOut:
    """Sits out the instants that come within `wait_ms` of its making, judged by `now`; `check` raises a stop."""

    wait_ms: int
    now: Callable[[], int]
    check: Callable[[], None] = lambda: None
    _made: float = field(default_factory=time.monotonic)

    def __call__(self, scope: str, due_at: int) -> bool:
        """Sleep until `due_at`, if patience reaches so far; tell whether it did."""
        left = self._made + self.wait_ms / 1000 - time.monotonic()
        if due_at - self.now() > left * 1000:
            return False
        output.say(f"{scope} waits until {instant(due_at)}: sitting it out")
        while (ahead := due_at - self.now()) > 0:
            time.sleep(min(SLICE_S, ahead / 1000))
            self.check()
        return True
