"""The leases of one engine: all of them live by its holder's row, renewed by the keeper while anything is open."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import Canceled, ExecutionSuperseded
from engine.execution.announce import announce
from engine.execution.keeper import LEASE_MS, RENEW_MS, Keeper
from engine.sql import call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.clock import Clock
    from engine.execution.cancellation import Cancellation
    from engine.ports import Database
    from engine.shapes import Attempt

_log = logging.getLogger("contextful")


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
        self._known_until = 0
        self._known: dict[str, int] = {}
        self._held: frozenset[str] = frozenset()
        self._callbacks = threading.Lock()
        self._at_work = 0
        self._leaving = False

    def register(self) -> None:
        """Register the holder, or renew it: an attempt is opened only under a lease that runs.

        A serve process above this one hears of the holder first (run.callback-guard.holder-identity).
        """
        with self._lock:
            if self._renewed_at is None:
                announce(self.holder)
                asked_at = self._clock.elapsed()
                self._db.run(
                    call("register_holder", holder=self.holder, pid=os.getpid(), boot_id=boot_id(), lease_ms=LEASE_MS)
                )
                self._renewed_at = self._clock.now()
                self._known_until = asked_at + LEASE_MS
                return
        self._renew_if_due()

    @property
    def leaving(self) -> bool:
        """Whether the engine is being closed, or is."""
        return self._leaving

    def keep(self, attempt: Attempt, cancellation: Cancellation) -> int:
        """Put an attempt in the keeper's care; return the number it leaves with."""
        with self._lock:
            self._known = self._known | {attempt.run_id: self._known_until}
        return self._keeper.register(partial(self._tend, attempt, cancellation), every_ms=RENEW_MS)

    def leave(self, number: int, *, last: Callable[[], None] | None = None) -> None:
        """Renew an attempt no more; the keeper runs `last` once."""
        self._keeper.end(number, last=last)

    def known_until(self, run_id: str) -> int:
        """Until when, in the clock's elapsed milliseconds, the attempt's lease is known to run (rule G3).

        A renewal that does not find the attempt on its owner lengthens nothing: what ended its lease may have released
        its guard as well (rule G9).
        """
        # Without the lock, which a renewal holds for as long as the store takes to answer.
        return self._known.get(run_id, 0)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Count a callback in for the block: under none is the holder's exit written (run.callback-guard.holder-gone).

        It belongs on the thread that may still send when everybody else has given the work up. Raise `Canceled` once
        the holder is leaving: what begins then would send for a holder whose exit is recorded.
        """
        with self._callbacks:
            if self._leaving:
                raise Canceled("the engine was closed before this callback began")
            self._at_work += 1
        try:
            yield
        finally:
            with self._callbacks:
                self._at_work -= 1

    def exit(self) -> bool:
        """Record that the holder is gone, its last callback having returned; tell whether that was so.

        A callback that another thread is still inside may yet send. Then nothing is recorded: the serve process that
        reaps this one does it, and without one the holder's guards stay for the operator. Either way no callback
        begins any more.
        """
        with self._callbacks:
            self._leaving = True
            at_work = self._at_work
        if at_work:
            _log.warning("the exit of the holder %s is not recorded: callbacks at work: %d", self.holder, at_work)
            return False
        if self._renewed_at is not None:
            self._db.run(call("exit_holder", holder=self.holder))
        return True

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
            asked_at = self._clock.elapsed()
            renewed, held = self._db.run(
                call("renew_holder", holder=self.holder, lease_ms=LEASE_MS), call("held_attempts", holder=self.holder)
            )
            self._held = frozenset(attempt for (attempt,) in held)
            self._renewed_at = now
            if renewed:
                self._known_until = asked_at + LEASE_MS
                running = {run_id: until for run_id, until in self._known.items() if until > asked_at}
                self._known = running | dict.fromkeys(self._held, self._known_until)


def boot_id() -> str:
    """The machine's boot, for people who read a run row; nothing is inferred from it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"
