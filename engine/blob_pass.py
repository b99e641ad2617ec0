"""The pass over a store's blobs: whichever engine is there for it makes it, once every 24 h."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from engine.errors import StorageFailure
from engine.journal import SWEEP_EVERY_MS, SWEEP_GRACE_MS
from engine.sql import call

if TYPE_CHECKING:
    from engine.clock import Clock
    from engine.ports import Database, JournalStore

SWEEP_AGAIN_MS: Final = 360_000
"""How long after a pass that left something the next one is: longer than a doomed content is left to its sweeper."""

_log = logging.getLogger("contextful")


class BlobPass:
    """Sweeps the journal's blobs every 24 h (run.journal.blob-sweep).

    The store notes the last pass, so that engines which live for a minute keep the cadence as one does that lives for
    weeks. The note comes behind the sweep, and only where that left nothing: what a death or an outage leaves half
    done, the next engine repeats, and this one some minutes later. Two passes at once harm nothing.
    """

    def __init__(self, database: Database, journal: JournalStore, clock: Clock) -> None:
        self._db = database
        self._journal = journal
        self._clock = clock
        self._due = clock.elapsed()
        self._making = threading.Lock()

    def make_if_due(self) -> None:
        """Sweep if the last pass is 24 h old, while other threads go on; a failure is logged and hinders nobody."""
        if self._clock.elapsed() < self._due or not self._making.acquire(blocking=False):
            return
        try:
            if self._clock.elapsed() >= self._due:  # or another thread has made it between the two looks
                wait_ms = self._made()
                self._due = self._clock.elapsed() + wait_ms
        finally:
            self._making.release()

    def _made(self) -> int:
        """Make the pass if the store waits for one; return in how many milliseconds the next may be due."""
        try:
            [[(wait_ms,)]] = self._db.run(call("sweep_wait", every_ms=SWEEP_EVERY_MS))
            if wait_ms > 0:
                return int(wait_ms)
            self._sweep()
        except StorageFailure as failure:
            minutes = SWEEP_AGAIN_MS // 60_000
            _log.warning("blobs that nothing references are not swept yet, again in %d min: %s", minutes, failure)
            return SWEEP_AGAIN_MS
        return SWEEP_EVERY_MS

    def _sweep(self) -> None:
        """Sweep and note it. Raise `StorageFailure` where something is left, which another engine may be deleting."""
        before = self._db.now() - SWEEP_GRACE_MS
        self._journal.sweep(older_than=before)
        if left := self._journal.unreferenced(older_than=before):
            raise StorageFailure(f"{len(left)} are not deleted yet")
        self._db.run(call("note_sweep"))
