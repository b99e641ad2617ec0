"""Stop requests: the one channel by which anybody outside a run's process asks it to end.

    stop R ──▶ a mark in the catalog ──poll──▶ the token of R's process ──▶ every wait of R ──▶ canceled

A mark is machine state that the run row joins; a newer request overwrites an older one (run.cancel.catalog-channel).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from engine.errors import Canceled
from engine.sql import call

if TYPE_CHECKING:
    from engine.ports import Database


class StopScope(StrEnum):
    """How far a stop reaches: one run, or the whole pipeline (of a host run: its host scope)."""

    RUN = "run"
    PIPELINE = "pipeline"

    @classmethod
    def stored(cls, text: str) -> StopScope:
        """The scope a mark was stored with; one nobody knows reads as the narrower (run.cancel.two-grains)."""
        return cls.PIPELINE if text == cls.PIPELINE else cls.RUN


@dataclass(frozen=True, slots=True)
class Stop:
    """A request as it stands on a run."""

    requested_at: int
    scope: StopScope
    reason: str | None

    @classmethod
    def of(cls, requested_at: int, scope: str, reason: str | None) -> Stop:
        """The mark behind a stored row."""
        return cls(requested_at, StopScope.stored(scope), reason)

    @property
    def failure(self) -> Canceled:
        """What the run it stops ends with."""
        return Canceled(f"stopped on request: {self.reason}" if self.reason else "stopped on request")

    @property
    def shown(self) -> dict[str, Any]:
        """The mark as the run row carries it."""
        return {"requested_at": self.requested_at, "scope": str(self.scope), "reason": self.reason}


def read(database: Database, run_id: str) -> Stop | None:
    """The request that stands on `run_id`."""
    rows = database.run(call("read_stop", run_id=run_id))[0]
    return Stop.of(*rows[0]) if rows else None
