"""What one engine does in the model of guards, by its own code: from its first admission to its attempt's end."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from engine.errors import (
    ContextfulError,
    ExecutionTransferBlocked,
    RateLimited,
    StepFailed,
    StorageFailure,
    Transient,
)
from engine.execution.callbacks import Callbacks
from engine.execution.cancellation import Cancellation
from engine.execution.effects import Effects
from engine.execution.outbound import Outbound
from engine.execution.steps import Steps
from engine.guards.admission import SqlAdmission
from engine.journal import SqlJournal
from engine.local.blobs import SqliteBlobs
from engine.owners import Owners
from engine.runs import RunRow
from engine.schedule import Schedule
from engine.secrets import SecretGuard
from engine.shapes import Attempt, Entry, EntryKey, RunStatus
from tests.model.guards_store import SeenLeases, Tokens

if TYPE_CHECKING:
    from engine.pipeline.declaration import Destination
    from tests.model.guards_store import GuardScript

SCOPE, EXECUTION = "host:charge", "x-1"
KEY: Final = EntryKey(EXECUTION, "charge", "in")
TIMEOUT_MS: Final = 5_000
"""What a request may take at the longest."""

ACTS, REFUSES, UNAVAILABLE = 200, 429, 503
UNREADABLE, UNANSWERED = "200, unreadable", "none"

_SECRETS: Final = SecretGuard({})


@dataclass(frozen=True, eq=False)
class Life:
    """An attempt of `name`: its host asks for the guarded step up to `calls` times, each with `tries` of its effect."""

    name: str
    destination: Destination
    tries: int
    calls: int

    def __call__(self, script: GuardScript) -> str:
        """Live it; return how it ended."""
        database: Any = script
        chance: Any = Tokens(self.name, execution=EXECUTION)
        journal = SqlJournal(database, SqliteBlobs(database))
        admission = SqlAdmission(database, journal)
        attempt = Attempt(SCOPE, EXECUTION, self.name, f"h-{self.name}")
        leases = SeenLeases(script, holder=attempt.holder)
        room: Any = SimpleNamespace(
            database=database, journal=journal, admission=admission, owners=Owners(database, journal, chance),
            callbacks=Callbacks(), leases=leases, clock=script, chance=chance,
        )  # fmt: skip
        try:
            self._work(room, attempt, script)
        except ContextfulError as failure:
            return _given_up(room, attempt, failure=failure)
        return _succeeded(room, attempt)

    def _work(self, room: Any, attempt: Attempt, script: GuardScript) -> None:
        outbound = Outbound(room.database, room.chance, attempt=attempt, guard=_SECRETS)
        steps = Steps(room.journal, room.clock, room.chance, attempt, outbound, Cancellation(), _unheard)
        schedule = Schedule(attempts=self.tries, jitter_ms=0)
        for left in reversed(range(self.calls)):
            course = Marked(room, attempt, outbound, Cancellation(), self.destination)
            try:
                steps.run(KEY, partial(_sent, script, course), schedule=schedule, course=course)
            except (StepFailed, StorageFailure):
                if not left:
                    raise
            else:
                return


class Marked(Effects):
    """The course of a guarded step, of which a caller that waits for a sibling goes back to where it claims."""

    def claim(self, key: EntryKey, *, token: str) -> Entry:
        """Claim as the engine does."""
        script: Any = self.room.database
        script.mark()
        return super().claim(key, token=token)


def _sent(script: GuardScript, course: Effects, effect: Any) -> bytes:
    """What the effect does: one request, asked for and noted as the engine's client does it."""
    script.ask("calls")
    effect.cover.check(timeout_ms=TIMEOUT_MS)
    sent = course.outbound._intent.sent
    sent.append({})
    script.leaves(course._admitted[0].token)
    answer = script.ask("answer")
    if answer == UNANSWERED:
        raise Transient("no answer")
    sent[-1]["status"] = ACTS if answer == UNREADABLE else answer
    if answer == REFUSES:
        raise RateLimited("later")
    if answer != ACTS:
        raise Transient(str(answer))
    return b"value"


def _succeeded(room: Any, attempt: Attempt) -> str:
    row = RunRow(attempt.run_id, RunStatus.RUNNING, 0)
    room.admission.undo(SCOPE)
    try:
        room.owners.retire(attempt, run=row.ended(RunStatus.SUCCESS, at=0))
    except ExecutionTransferBlocked as blocked:
        room.owners.release(attempt, run=row.ended(RunStatus.FAILED, at=0))
        return type(blocked).__name__
    return "success"


def _given_up(room: Any, attempt: Attempt, *, failure: ContextfulError) -> str:
    cause = failure.failure if isinstance(failure, StepFailed) else failure
    with suppress(StorageFailure):
        room.admission.undo(SCOPE)
    room.owners.release(attempt, run=RunRow(attempt.run_id, RunStatus.RUNNING, 0).ended(RunStatus.FAILED, at=0))
    return type(cause).__name__


def _unheard(step: str, attempt: int, failure: ContextfulError, delay_ms: int) -> None:
    """Nobody listens."""
