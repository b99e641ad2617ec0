"""The only reader of time and the only source of chance; both are injected everywhere else.

Instants are integer milliseconds since the epoch; on every surface they are RFC 3339 with a `Z`.
"""

from __future__ import annotations

import random
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from engine.instants import instant

if TYPE_CHECKING:
    import threading

__all__ = ["Chance", "Clock", "PauseSeries", "SystemClock", "instant", "pauses"]

_ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Tells the instant and waits. Tests inject one that stands where they say."""

    def now(self) -> int:
        """The instant, in milliseconds since the epoch."""

    def elapsed(self) -> int:
        """Milliseconds since some instant: they never go back, and they pass while the machine sleeps."""

    def wait(self, event: threading.Event, milliseconds: float) -> bool:
        """Wait until `event` is set or the time has passed; tell whether it was set."""


class SystemClock:
    """The machine's clock, moved by `offset_ms`: a process may stand ahead of its neighbours."""

    def __init__(self, offset_ms: int = 0) -> None:
        self.offset_ms = offset_ms

    def now(self) -> int:
        """The machine's instant plus the offset."""
        return time.time_ns() // 1_000_000 + self.offset_ms

    def elapsed(self) -> int:
        """The time since the machine was started, its sleep counted in where the platform tells."""
        return time.clock_gettime_ns(_ELAPSED) // 1_000_000

    def wait(self, event: threading.Event, milliseconds: float) -> bool:
        """Wait in real time."""
        return event.wait(max(milliseconds, 0) / 1000)


@dataclass(frozen=True, slots=True)
class Chance:
    """Draws ids and jitter; seeded, it draws the same ones again."""

    source: random.Random = field(default_factory=secrets.SystemRandom)

    @classmethod
    def seeded(cls, seed: int) -> Chance:
        """A source whose draws are a function of `seed`."""
        return cls(random.Random(seed))  # noqa: S311 - replayable draws are the purpose

    def execution_id(self) -> str:
        """`x-` and 24 hex digits."""
        return f"x-{self._hex(24)}"

    def run_id(self) -> str:
        """`r-` and 24 hex digits."""
        return f"r-{self._hex(24)}"

    def fire_id(self) -> str:
        """`f-` and 24 hex digits."""
        return f"f-{self._hex(24)}"

    def holder_id(self) -> str:
        """`h-` and 32 hex digits."""
        return f"h-{self._hex(32)}"

    def guard_token(self) -> str:
        """`g-` and 24 hex digits."""
        return f"g-{self._hex(24)}"

    def token(self) -> str:
        """32 hex digits: a claim or an awakeable, told apart from every other by chance alone."""
        return self._hex(32)

    def trace_id(self) -> str:
        """32 hex digits: a W3C trace id."""
        return self._hex(32)

    def jitter(self, ceiling_ms: int) -> int:
        """Milliseconds from 0 up to, not including, `ceiling_ms`."""
        return self.source.randrange(ceiling_ms) if ceiling_ms > 0 else 0

    def _hex(self, digits: int) -> str:
        return f"{self.source.getrandbits(digits * 4):0{digits}x}"


def pauses(*, first_s: float, longest_s: float, patience_s: float) -> PauseSeries:
    """Real pauses that double from `first_s` to `longest_s` until `patience_s` have passed."""
    return PauseSeries(first_s, longest_s, patience_s)


class PauseSeries:
    """Spaces out the tries at a thing another process holds for an instant."""

    def __init__(self, first_s: float, longest_s: float, patience_s: float) -> None:
        self._next = first_s
        self._longest = longest_s
        self._deadline = time.monotonic() + patience_s

    def pause(self) -> bool:
        """Sleep once; tell whether patience is left. Half of each pause is random, so that two waiters part."""
        if time.monotonic() >= self._deadline:
            return False
        time.sleep(self._next * random.uniform(0.5, 1.0))  # noqa: S311 - spreads waiters, decides nothing
        self._next = min(self._next * 2, self._longest)
        return True
