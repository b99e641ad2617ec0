"""The bounds a run has struck: listed on its row even where a later attempt of the step recovered."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.errors import ConnectorBoundHit
from engine.runs import noting

if TYPE_CHECKING:
    from engine.errors import ContextfulError
    from engine.ports import Database
    from engine.runs import RunRow


class BoundHits:
    """Notes each hit on the row at once, so that a crash loses none (run.retry.bound-hit-recorded)."""

    def __init__(self, database: Database, run: RunRow, *, holder: str) -> None:
        self.hits: tuple[dict[str, Any], ...] = run.bound_hits
        self._db = database
        self._run = run
        self._holder = holder

    def failed(self, step: str, attempt: int, failure: ContextfulError) -> None:
        """Note the try of `step` if it struck a bound."""
        if isinstance(failure, ConnectorBoundHit):
            self.hits = (*self.hits, {"step": step, "attempt": attempt, "bound": failure.bound})
            self._db.run(noting(replace(self._run, bound_hits=self.hits), holder=self._holder))
