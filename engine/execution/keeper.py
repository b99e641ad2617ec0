"""One thread an engine that keeps what is open alive: it sleeps until the earliest deadline and ends with the last."""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.clock import Clock

LEASE_MS: Final = 30_000
"""How long a lease lives without renewal (run.record.owner-lease)."""

RENEW_MS: Final = 10_000
"""How often it is renewed."""

STOPPED_S: Final = 5
"""How long a stop waits for the job under way."""

_log = logging.getLogger("contextful")


@dataclass(slots=True)
class Registration:
    """A job in the keeper's care; `due` is the instant it is next run."""

    job: Callable[[], None]
    every_ms: int
    due: int
    at_end: Callable[[], None] | None = None
    ended: bool = False


class Keeper:
    """Runs registered jobs on their cadence on one thread (run.cancel.engine-keeper).

    A job that raises is warned of and tried again at its next deadline; every other keeps its own cadence
    (run.cancel.keeper-panic).
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._jobs: dict[int, Registration] = {}
        self._along: list[Registration] = []
        self._numbers = itertools.count()
        # A simple queue, unlike an event, may be put to from a finalizer that interrupts its own getter.
        self._wakes: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def register(self, job: Callable[[], None], *, every_ms: int) -> int:
        """Run `job` every `every_ms` from one interval on; return the number that ends it."""
        with self._lock:
            number = next(self._numbers)
            self._jobs[number] = Registration(job, every_ms, self._clock.now() + every_ms)
            if self._thread is None:
                for companion in self._along:
                    companion.due = self._clock.now() + companion.every_ms
                self._thread = threading.Thread(target=self._run, name="contextful-keeper", daemon=True)
                self._thread.start()
        self.wake()
        return number

    def accompany(self, job: Callable[[], None], *, every_ms: int) -> None:
        """Run `job` every `every_ms` for as long as anything is registered; it keeps no thread alive itself."""
        self._along.append(Registration(job, every_ms, 0))

    def end(self, number: int, *, last: Callable[[], None] | None = None) -> None:
        """End a registration; the thread runs `last` once in its place.

        A finalizer may call it: it waits for nothing.
        """
        registration = self._jobs.get(number)
        if registration is not None:
            registration.at_end = last
            registration.ended = True
            self.wake()

    def stop(self) -> None:
        """End every registration without its last job: whatever it would be run on is about to be closed."""
        with self._lock:
            self._jobs.clear()
        self.wake()
        self.join(STOPPED_S)

    def wake(self) -> None:
        """Look at the deadlines now: the clock may have moved."""
        self._wakes.put(None)

    @property
    def running(self) -> bool:
        """Whether the thread is alive."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread to end; tell whether it has."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)
        return not self.running

    def _run(self) -> None:
        while True:
            self._run_due()
            with self._lock:
                self._retire_ended()
                if not self._jobs:
                    self._thread = None
                    return
                due = min(job.due for job in (*self._jobs.values(), *self._along))
            self._sleep(due - self._clock.now())

    def _sleep(self, milliseconds: int) -> None:
        with contextlib.suppress(Empty):
            self._wakes.get(timeout=max(milliseconds, 0) / 1000)

    def _run_due(self) -> None:
        now = self._clock.now()
        with self._lock:
            due = [job for job in (*self._along, *self._jobs.values()) if job.due <= now and not job.ended]
        for job in due:
            job.due = now + job.every_ms
            _guarded(job.job)

    def _retire_ended(self) -> None:
        for number, job in list(self._jobs.items()):
            if job.ended:
                del self._jobs[number]
                if job.at_end:
                    _guarded(job.at_end)


def _guarded(job: Callable[[], None]) -> None:
    try:
        job()
    except Exception:  # one job's panic must not end the thread every lease lives by
        _log.warning("a keeper job failed and is tried again at its next deadline", exc_info=True)
