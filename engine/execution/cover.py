"""How long a callback may still send: while its own lease and the destination's window are known to cover (rule G3).

What is known is judged by this machine's own time, which neither goes back nor stands still while it sleeps, from the
instant before the store was asked. So a clock that is set back, or one that is behind the store's, lengthens nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.errors import EffectOverdue

if TYPE_CHECKING:
    from engine.clock import Clock
    from engine.execution.leases import Leases
    from engine.guards.asked import Admitted

MARGIN_MS: Final = 2_000
"""What a request may take from being let go to leaving the machine."""


@dataclass(frozen=True, slots=True)
class Cover:
    """What covers one admitted callback. `window_until` is in elapsed time; None where there was no window to count on.

    A destination without a window, or whose window had passed before an entry with nothing in doubt was admitted again,
    covers nothing: only the lease is asked for.
    """

    step: str
    run_id: str
    leases: Leases
    clock: Clock
    window_until: int | None

    @classmethod
    def of(cls, admitted: Admitted, *, leases: Leases, clock: Clock, asked_at: int) -> Cover:
        """The cover of a callback that was asked for at `asked_at`, in elapsed time."""
        until = admitted.covered_until
        left = None if until is None else until - admitted.admitted_at
        window_until = None if left is None or left <= 0 else asked_at + left
        return cls(admitted.asked.key.step, admitted.asked.attempt.run_id, leases, clock, window_until)

    @property
    def windowed(self) -> bool:
        """Whether the window is known to cover at this moment."""
        return self.window_until is not None and self.clock.elapsed() < self.window_until

    @property
    def left_ms(self) -> int:
        """For how long a request may still leave, as `check` judges it of one that takes no time; 0 once it may not."""
        ends = [self.leases.known_until(self.run_id), *([] if self.window_until is None else [self.window_until])]
        return max(min(ends) - MARGIN_MS - self.clock.elapsed(), 0)

    def check(self, *, timeout_ms: float = 0) -> None:
        """Raise `EffectOverdue` unless a request that takes up to `timeout_ms` may leave now.

        The lease must cover its leaving, the window its arrival as well.
        """
        now = self.clock.elapsed()
        if now + MARGIN_MS >= self.leases.known_until(self.run_id):
            raise EffectOverdue(step=self.step, lapsed="its lease is not known to run")
        if self.window_until is not None and now + MARGIN_MS + timeout_ms >= self.window_until:
            raise EffectOverdue(step=self.step, lapsed="the destination's window ends before its answer must come")
