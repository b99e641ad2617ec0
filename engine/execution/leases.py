"""The leases of one engine: all of them live by its holder's row, renewed by the keeper while anything is open."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import ExecutionSuperseded
from engine.execution.keeper import LEASE_MS, RENEW_MS, Keeper
from engine.sql import call

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.clock import Clock
    from engine.execution.cancellation import Cancellation
    from engine.ports import Database
    from engine.shapes import Attempt


class Leases:
    """Registers the holder, renews its row every 10 s and tells each open attempt that lost its owner.

    However many attempts are open, one row is renewed (run.record.owner-lease). A lease that lapsed while nobody took
    the owner, through a laptop's sleep or a store that was away, simply lives on.
    """

    def __init__(self, database: Database, clock: Clock, *, holder: str, keeper: Keeper) -> None:
        self.holder = holder
        self._db = database
        self._clock = clock
        self._keeper = keeper
        self._lock = threading.Lock()
        self._renewed_at: int | None = None
        self._held: frozenset[str] = frozenset()

    def register(self) -> None:
        """Register the holder, or renew it: an attempt is opened only under a lease that runs."""
        with self._lock:
            if self._renewed_at is None:
                self._db.run(
                    call("register_holder", holder=self.holder, pid=os.getpid(), boot_id=boot_id(), lease_ms=LEASE_MS)
                )
                self._renewed_at = self._clock.now()
                return
        self._renew_if_due()

    def keep(self, attempt: Attempt, cancellation: Cancellation) -> int:
        """Put an attempt in the keeper's care; return the number it leaves with."""
        return self._keeper.register(partial(self._tend, attempt, cancellation), every_ms=RENEW_MS)

    def leave(self, number: int, *, last: Callable[[], None] | None = None) -> None:
        """Renew an attempt no more; the keeper runs `last` once."""
        self._keeper.end(number, last=last)

    def exit(self) -> None:
        """Record that the holder is gone: its last callback has returned."""
        if self._renewed_at is not None:
            self._db.run(call("exit_holder", holder=self.holder))

    def _tend(self, attempt: Attempt, cancellation: Cancellation) -> None:
        self._renew_if_due()
        if attempt.run_id not in self._held:
            cancellation.trip(ExecutionSuperseded(scope=attempt.scope, attempt=attempt.run_id))

    def _renew_if_due(self) -> None:
        """Renew once for all attempts whose turn comes in the same second, and read which of them still stand."""
        with self._lock:
            now = self._clock.now()
            if self._renewed_at is not None and 0 <= now - self._renewed_at < RENEW_MS - 1_000 and self._held:
                return
            _, held = self._db.run(
                call("renew_holder", holder=self.holder, lease_ms=LEASE_MS), call("held_attempts", holder=self.holder)
            )
            self._held = frozenset(attempt for (attempt,) in held)
            self._renewed_at = now


def boot_id() -> str:
    """The machine's boot, for people who read a run row; nothing is inferred from it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"
