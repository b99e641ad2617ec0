"""The exports of a manifest as people look at them: how far each is, what is left to deliver, what is in its way."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from engine.clock import instant
from engine.exports.run import scope_of
from engine.owners import Owners
from engine.runs import Runs
from engine.sql import call
from engine.status import pending

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.clock import Chance
    from engine.pipeline.declaration import Destination, Export, Manifest
    from engine.profile import Profile
    from engine.runs import RunRow
    from engine.status import Pending


@dataclass(frozen=True, slots=True)
class Left:
    """What of a decision the outbox holds: its batches, and of those the undelivered ones with their rows."""

    batches: int = 0
    undelivered: int = 0
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Listed:
    """An export as it stands. `last_run` is its latest attempt, `finished_at` when it last delivered everything."""

    export: Export
    destination: Destination
    position: dict[str, Any] | None
    last_run: RunRow | None
    finished_at: int | None
    pending: Pending | None
    left: Left

    @property
    def state(self) -> str:
        """`idle`, or where its unfinished execution stands."""
        return str(self.pending.state) if self.pending else "idle"

    @property
    def next(self) -> str:
        """The verb that moves it on."""
        return self.pending.next if self.pending else f"contextful export run {self.export.name}"

    def projection(self) -> dict[str, Any]:
        """The export as every surface shows it: instants as text, the window in seconds."""
        window = self.destination.dedup_window_ms
        guard = self.pending.guard if self.pending else None
        return {
            "name": self.export.name,
            "table": self.export.table,
            "statement": self.export.statement,
            "destination": self.destination.name,
            "window": None if window is None else window / 1000,
            "batch": self.export.batch,
            "state": self.state,
            "position": self.position,
            "finished_at": instant(self.finished_at),
            "last_run": self.last_run and _run(self.last_run),
            "pending": asdict(self.left),
            "guard": guard and asdict(guard),
            "next": self.next,
        }


def listed(profile: Profile, declared: Manifest, *, exports: Iterable[Export], chance: Chance) -> list[Listed]:
    """Each of `exports` as it stands, in their order."""
    kept, counts = profile.database.run(call("list_exports"), call("outbox_counts"))
    left = {execution_id: Left(*count) for execution_id, *count in counts}
    owners = Owners(profile.database, profile.journal, chance).all()
    unfinished = {each.scope: each for each in pending(profile, owners, declared=declared)}
    destinations = {each.name: each for each in declared.destinations}
    runs = Runs(profile.database)
    states = {name: state for name, *state in kept}

    def one(export: Export) -> Listed:
        position, run_id, finished_at = states.get(export.name, (None, None, None))
        standing = unfinished.get(scope_of(export.name))
        return Listed(
            export,
            destinations[export.destination],
            position and json.loads(position),
            runs.get(run_id) if run_id else None,
            finished_at,
            standing,
            left.get(standing.execution_id, Left()) if standing else Left(),
        )

    return [one(export) for export in exports]


def _run(row: RunRow) -> dict[str, Any]:
    shown = row.projection()
    return {name: shown[name] for name in ("run_id", "status", "rows", "batches", "started_at", "ended_at", "error")}
