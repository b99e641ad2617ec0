"""What stops the runs of one engine: marks on them in the catalog, and its own process being asked to end."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from engine.errors import Canceled, StorageFailure
from engine.sql import call
from engine.stops import Stop

if TYPE_CHECKING:
    from engine.errors import ContextfulError
    from engine.execution.cancellation import Cancellation
    from engine.execution.keeper import Keeper
    from engine.ports import Database

POLL_MS: Final = 500
"""How often the marks of the open runs are read (run.cancel.poll-interval)."""

_log = logging.getLogger("contextful")


class Stopping:
    """Feeds the tokens of an engine's open runs: one read for all of them, as often as `POLL_MS` says."""

    def __init__(self, database: Database, *, holder: str, keeper: Keeper) -> None:
        self._db = database
        self._holder = holder
        self._open: dict[str, Cancellation] = {}
        self.reason: Canceled | None = None
        keeper.accompany(self._poll, every_ms=POLL_MS)

    def watch(self, run_id: str, cancellation: Cancellation) -> None:
        """Stop `cancellation` with the run from now on; its mark is read once before this returns."""
        self._open[run_id] = cancellation
        if self.reason is not None:
            cancellation.trip(self.reason)
        try:
            self._poll()
        except StorageFailure:
            _log.warning("whether run %s is asked to stop could not be read; it is asked again soon", run_id)

    def forget(self, run_id: str) -> None:
        """Watch a run no more. A finalizer may call it."""
        self._open.pop(run_id, None)

    def stop(self, reason: str) -> None:
        """Stop everything that is open, and whatever is opened from now on."""
        self.reason = Canceled(reason)
        for cancellation in list(self._open.values()):
            cancellation.trip(self.reason)

    def check(self) -> None:
        """Raise `Canceled` if the whole engine is asked to stop."""
        if self.reason is not None:
            raise self.reason

    def _poll(self) -> None:
        for run_id, *mark in self._db.run(call("held_stops", holder=self._holder))[0]:
            self._trip(run_id, Stop.of(*mark).failure)

    def _trip(self, run_id: str, reason: ContextfulError) -> None:
        cancellation = self._open.get(run_id)
        if cancellation is not None:
            cancellation.trip(reason)
