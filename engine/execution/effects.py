"""How a callback goes out to a destination: admitted under a guard, sent while it is covered, settled by how it ended.

admit ──recorded, or a sibling's──▶ entry
  │ ╲─ guarded by a callback of ours ──▶ wait ──▶ admit
  │ ╲─ guarded otherwise ──▶ ExecutionTransferBlocked
check ──not covered──▶ withdraw ──▶ EffectOverdue
  │
effect ──value──▶ release and record
  │ ╲─ refused ──▶ release, nothing in doubt
  │ ╲─ no answer, covered ──▶ release, in doubt
  │ ╲─ no answer, not covered ──▶ the guard stands, ExecutionTransferBlocked
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.errors import (
    AuthExpired,
    EffectOverdue,
    ExecutionSuperseded,
    ExecutionTransferBlocked,
    Permanent,
    RateLimited,
    StorageFailure,
)
from engine.execution.call import Call
from engine.execution.cover import Cover
from engine.execution.failures import failure_of
from engine.execution.interruptions import interruptions
from engine.execution.steps import SIBLING_POLL_MS
from engine.guards.asked import Admitted, Asked
from engine.guards.rules import ENDINGS, Ending, Kind, Mark, ending
from engine.guards.store import Guards
from engine.shapes import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.execution.cancellation import Cancellation
    from engine.execution.held import Room
    from engine.execution.outbound import Outbound
    from engine.pipeline.declaration import Destination
    from engine.shapes import Attempt, EntryKey

REFUSALS: Final = frozenset({Permanent, RateLimited, AuthExpired})
"""What an effect raises, as the class itself, to say that its destination answered and did nothing."""


@dataclass
class Effects:
    """The course of a step whose effect calls `destination`: one object a step, with the admission it has now."""

    room: Room
    attempt: Attempt
    outbound: Outbound
    cancellation: Cancellation
    destination: Destination
    kind: Kind = Kind.EFFECT
    _unheard: bool = False
    _admission: tuple[Admitted, Cover] | None = None

    @property
    def in_doubt(self) -> bool:
        """Whether the destination may have acted without the journal saying so: then the execution is kept for it."""
        return self._unheard or self._admission is not None

    def claim(self, key: EntryKey, *, token: str) -> Entry:
        """Claim `key` and bind its guard, or return the entry that stands in the way."""
        self.room.callbacks.check_alone(key)
        entry = self._admit(key, claim=token)
        if self._admission and entry.next_attempt_at is not None:
            # The try before was told to wait: nobody waits under a guard.
            self._settle(Mark.WITHDRAWN)
        return entry

    def attempt_once(self, key: EntryKey, token: str, effect: Callable[[Call], bytes | None], *, number: int) -> bytes:
        """Try once, under a guard, and record what `effect` returns.

        A value that was recorded since the last try is returned: an operator's, or our own of which no answer came.
        """
        if self._admission is None:
            entry = self._admit(key, claim=token)
            if entry.recorded:
                return self.room.journal.value(entry)
        if self._admission is None:
            raise ExecutionSuperseded(scope=self.attempt.scope, attempt=self.attempt.run_id)
        value = self._called(key, effect, number=number)
        assert value is not None, "a step with a destination always records"
        self._record(value)
        return value

    def _called(self, key: EntryKey, effect: Callable[[Call], bytes | None], *, number: int) -> bytes | None:
        admitted, cover = self._admitted
        self.outbound.enter(key, header=self.destination.idempotency_header, cover=cover)
        begun = False
        try:
            with self.room.leases.at_work(), self.room.callbacks.callback(self.attempt.scope, key):
                cover.check()
                begun = True
                return effect(Call(key, number, self.cancellation, self.outbound, cover))
        except BaseException as raised:
            if not isinstance(raised, (Exception, *interruptions())):
                # As after a crash: nobody at work any more, and the guard stands for whoever looks next.
                self._unheard = True
                self._end()
                raise
            self._ended(self._ending(raised) if begun else Ending.UNSENT, admitted, because=raised)
            if not isinstance(raised, Exception):
                raise
            raise failure_of(raised) from raised
        finally:
            self.outbound.leave()

    def _admit(self, key: EntryKey, *, claim: str) -> Entry:
        self.room.leases.register()
        while True:
            asked = self._asked(key, claim=claim)
            asked_at = self.room.clock.elapsed()
            try:
                with self._beginning(asked.token):
                    admitted = self.room.admission.admit(asked)
                break
            except ExecutionTransferBlocked as blocked:
                # One of ours may have returned since it was met: only what still stands is nobody's at work.
                if not self.room.callbacks.at_work(blocked.token) and Guards(self.room.database).stands(blocked.token):
                    raise
            self.cancellation.wait(self.room.clock, SIBLING_POLL_MS)
        if isinstance(admitted, Entry):
            self.room.callbacks.end(asked.token)
            return admitted
        self._admission = (
            admitted,
            Cover.of(admitted, leases=self.room.leases, clock=self.room.clock, asked_at=asked_at),
        )
        return Entry(key, claim, self.attempt.run_id, admitted.attempts, admitted.next_attempt_at, None, None)

    def _asked(self, key: EntryKey, *, claim: str) -> Asked:
        token = self.room.chance.guard_token()
        name, window_ms = self.destination.name, self.destination.dedup_window_ms
        return Asked(token, key, self.attempt, claim, name, window_ms, self.kind)

    def _ending(self, raised: BaseException) -> Ending:
        """How the callback ended that raised: by the answers its requests got, and else by what it raised."""
        statuses = self.outbound.statuses
        answered = ending(statuses, refusals=self.destination.refusals)
        # Statuses tell of a client that the effect did not ask for itself: it kept one of an earlier step.
        known = statuses or self.outbound.ours or isinstance(raised, EffectOverdue)
        if answered is Ending.UNANSWERED or (known and not self.outbound.by_other_means):
            return answered
        # It sends by means of its own, of which nothing is known but what it says.
        return Ending.REFUSED if type(raised) in REFUSALS else Ending.UNANSWERED

    def _ended(self, how: Ending, admitted: Admitted, *, because: BaseException) -> None:
        """Settle a callback that returned no value. Raise `ExecutionTransferBlocked` where its guard must stand."""
        self._unheard = self._unheard or how is Ending.UNANSWERED
        settling = ENDINGS[how, self._admitted[1].windowed]
        if settling.releases:
            self._settle(settling.mark)
            return
        # Ours no more before anything else: it is sent under no more, and nobody waits for its return.
        self._end()
        if blocking := Guards(self.room.database).blocking(admitted.asked.protected[0]):
            raise blocking from because

    def _record(self, value: bytes) -> None:
        """Record the value with the release, or, where it cannot be kept, do as after no answer (rule G15)."""
        admitted, _ = self._admitted
        try:
            self.room.admission.record(admitted, value)
        except StorageFailure as failure:
            self._ended(Ending.UNANSWERED, admitted, because=failure)
            raise
        except BaseException:
            self._unheard = True
            self._end()
            raise
        self._end()

    def _settle(self, mark: Mark) -> None:
        admitted, _ = self._admitted
        self._unheard, before = True, self._unheard
        try:
            self.room.admission.settle(admitted, mark)
            self._unheard = before
        finally:
            self._end()

    def _end(self) -> None:
        admitted, _ = self._admitted
        self.room.callbacks.end(admitted.token)
        self._admission = None

    @property
    def _admitted(self) -> tuple[Admitted, Cover]:
        assert self._admission is not None, "asked for only while a guard of ours stands"
        return self._admission

    @contextmanager
    def _beginning(self, token: str) -> Iterator[None]:
        """Count the guard as ours from before it may be met."""
        self.room.callbacks.begin(token)
        try:
            yield
        except BaseException:
            self.room.callbacks.end(token)
            raise
