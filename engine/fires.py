"""Fires: one execution of one pipeline over all its tables. A fire owns table runs; their owners outlive it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.shapes import FireState, domain_hash
from engine.sql import call
from engine.unanswered import settled

if TYPE_CHECKING:
    from engine.ports import Database

FIRE: Final[dict[FireState, frozenset[FireState]]] = {
    FireState.REQUESTED: frozenset({FireState.RUNNING, FireState.PAUSED, FireState.CANCELED}),
    FireState.RUNNING: frozenset(
        {FireState.COMPLETED, FireState.FAILED, FireState.PARTIAL, FireState.PAUSED, FireState.CANCELED}
    ),
    FireState.PARTIAL: frozenset({FireState.REQUESTED, FireState.CANCELED}),
    FireState.PAUSED: frozenset({FireState.REQUESTED, FireState.CANCELED}),
    FireState.COMPLETED: frozenset(),
    FireState.FAILED: frozenset(),
    FireState.CANCELED: frozenset(),
}
"""Where each state may go; a test walks it against the statement that moves the column."""


@dataclass(frozen=True, slots=True)
class Fire:
    """A fire's row; `lease_until` is its engine's lease, 0 where that engine is gone."""

    fire_id: str
    pipeline_id: str
    state: FireState
    requested_at: int
    ended_at: int | None
    lease_until: int


class Fires:
    """The fires of a store. A move whose answer is lost is settled by the fire's state (run.journal.d1-transport)."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def request(self, fire_id: str, *, pipeline_id: str) -> Fire:
        """Ask for a fire, or find the one of that id as it stands."""
        settled(
            lambda: self._db.run(call("request_fire", fire_id=fire_id, pipeline_id=pipeline_id)),
            found=lambda: self._db.run(call("read_fire", fire_id=fire_id))[0] or None,
        )
        return self.read(fire_id)

    def read(self, fire_id: str) -> Fire:
        """The fire as it stands."""
        ((fire_id, pipeline_id, state, requested_at, ended_at, lease_until),) = self._db.run(
            call("read_fire", fire_id=fire_id)
        )[0]
        return Fire(fire_id, pipeline_id, FireState(state), requested_at, ended_at, lease_until)

    def begin(self, fire_id: str, *, holder: str) -> bool:
        """Run a requested fire for the engine `holder`, or take one up whose engine is gone; tell if it is ours."""
        self._move(fire_id, FireState.REQUESTED, FireState.RUNNING, holder=holder)
        return bool(self._db.run(call("adopt_fire", fire_id=fire_id, holder=holder))[0])

    def end(self, fire_id: str, state: FireState, *, holder: str) -> None:
        """Move a running fire of the engine `holder` to the state it ends in; one taken from it stays its taker's.

        Raise `ValueError` for a state that a running fire never enters.
        """
        self._move(fire_id, FireState.RUNNING, state, held_by=holder, ended_at=self._db.now())

    def leave(self, fire_id: str, *, holder: str) -> None:
        """Leave a fire of the engine `holder` running: a table of it waits, and whoever resumes that takes it up."""
        self._db.run(call("leave_fire", fire_id=fire_id, holder=holder))

    def fail_dead(self, *, but: str) -> None:
        """Fail the running fires whose engine is gone, all but the one about to be resumed.

        A new fire adopts what their tables left pending. A fire that owns a waiting run is not dead: it has a waker.
        """
        # Read first: a start that finds nothing dead waits for no disk.
        if self._db.run(call("dead_fires", but=but))[0]:
            self._db.run(call("fail_dead_fires", but=but))

    def _move(
        self,
        fire_id: str,
        state: FireState,
        target: FireState,
        *,
        held_by: str | None = None,
        holder: str | None = None,
        ended_at: int | None = None,
    ) -> None:
        if target not in FIRE[state]:
            raise ValueError(f"a fire that is {state} does not become {target}")
        moved = {"fire_id": fire_id, "state": state, "target": target, "holder": holder, "ended_at": ended_at}
        settled(
            lambda: self._db.run(call("move_fire", **moved, held_by=held_by)),
            found=lambda: [] if self.read(fire_id).state is target else None,
        )


def keyed_fire_id(*, project: str, pipeline: str, key: str) -> str:
    """The id a request's idempotency key stands for, alike however often it is repeated."""
    return f"f-{domain_hash('contextful.fire', project, pipeline, key)[:24]}"
