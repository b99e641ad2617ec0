"""The pass over a store's blobs: whichever engine is there for it makes it, once every 24 h."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from engine.errors import StorageFailure
from engine.journal import SWEEP_EVERY_MS, SWEEP_GRACE_MS
from engine.sql import call

if TYPE_CHECKING:
    from engine.clock import Clock
    from engine.ports import Database, JournalStore

_log = logging.getLogger("contextful")


class BlobPass:
    """Sweeps the journal's blobs every 24 h (run.journal.blob-sweep).

    The store notes the last pass, so that engines which live for a minute keep the cadence as one does that lives for
    weeks. The note comes behind the sweep: what a death leaves half done, the next engine repeats; two passes at once
    harm nothing.
    """

    def __init__(self, database: Database, journal: JournalStore, clock: Clock) -> None:
        self._db = database
        self._journal = journal
        self._clock = clock
        self._due = clock.elapsed()

    def make_if_due(self) -> None:
        """Sweep if the last pass is 24 h old; what the store refuses now is tried again at the next call."""
        if self._clock.elapsed() < self._due:
            return
        try:
            [[(wait_ms,)]] = self._db.run(call("sweep_wait", every_ms=SWEEP_EVERY_MS))
            if wait_ms <= 0:
                self._journal.sweep(older_than=self._db.now() - SWEEP_GRACE_MS)
                self._db.run(call("note_sweep"))
                wait_ms = SWEEP_EVERY_MS
            self._due = self._clock.elapsed() + wait_ms
        except StorageFailure:
            _log.warning("blobs that nothing references are not swept yet: it is tried again", exc_info=True)
