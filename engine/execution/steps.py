"""How a step runs: replay what is recorded, or claim, do, record. Every kind of step goes through here.

find ──recorded──▶ value
│
claim ──taken by a sibling──▶ wait ──▶ claim …
│ ours
effect ──failure──▶ decide ──again──▶ note the attempt ──soon──▶ wait ──▶ effect …
│                    │                  └──far off──▶ park the claim, Waiting
│                    ├──stands──▶ surrender the claim, StepFailed
│                    └──stopped──▶ park the claim, Canceled
│ ╲─ ended from outside ──▶ park the claim
record ──▶ value
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from engine.errors import (
    Canceled,
    ContextfulError,
    EffectElsewhere,
    EffectSettled,
    EffectUnsettled,
    ExecutionSuperseded,
    ExecutionTransferBlocked,
    RateLimited,
    StepFailed,
    StorageBindingUnavailable,
    Waiting,
)
from engine.execution.call import Call
from engine.execution.failures import failure_of
from engine.execution.interruptions import interruptions, where_interrupted
from engine.execution.retry import Stands, decide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.clock import Chance, Clock
    from engine.execution.cancellation import Cancellation
    from engine.execution.outbound import Outbound
    from engine.ports import JournalStore
    from engine.schedule import Schedule
    from engine.shapes import Attempt, Entry, EntryKey

LONGEST_SLEEP_MS: Final = 300_000
"""The longest wait that is slept through; past it the attempt closes and waits (run.retry.retry-after)."""

SIBLING_POLL_MS: Final = 20
"""How often a caller looks whether the sibling that claimed its key has recorded."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A step's recorded bytes, and whether the journal had them already. `value` is None for a withdrawn claim."""

    value: bytes | None
    replayed: bool


Effect = "Callable[[Call], bytes | None]"
"""Does the work and returns the bytes to record, or None to leave no record (an empty pull)."""

GUARDED: Final = (ExecutionTransferBlocked, EffectUnsettled, EffectSettled)
"""What no other try changes: somebody else must release a guard or say what came of an earlier call."""

WHICHEVER: Final = "TOKEN"
"""Stands for a guard's name where only the audit of what an operator reconciled tells it."""


class Course(Protocol):
    """How an effect is claimed, tried and recorded: here, or at a destination under a guard."""

    def claim(self, key: EntryKey, *, token: str) -> Entry:
        """Claim `key`, or return the entry that stands in the way."""

    def attempt_once(
        self, key: EntryKey, token: str, effect: Callable[[Call], bytes | None], *, number: int
    ) -> bytes | None:
        """Try `effect` once, as try `number`, and record what it returns. Raise its tagged failure."""


@dataclass(slots=True)
class Plain:
    """The course of an effect that stays here or may be repeated: claim, do, record.

    Where the effect is certain to send, and `sends` says so, its first claim writes the intent of its requests as well.
    """

    journal: JournalStore
    attempt: Attempt
    outbound: Outbound
    cancellation: Cancellation
    sends: bool = False

    def claim(self, key: EntryKey, *, token: str) -> Entry:
        """Claim `key`, or return the entry that stands in the way.

        Raise `EffectElsewhere` or `EffectSettled` where the step called a destination that it names no longer, and no
        sibling is still at it (rules G2 and G12 of the guard protocol).
        """
        entry = self._claimed(key, token=token)
        siblings = entry.claim not in {None, token} and entry.run_id == self.attempt.run_id
        if entry.outstanding and not siblings:
            raise _unnamed(entry)
        return entry

    def _claimed(self, key: EntryKey, *, token: str) -> Entry:
        if not self.sends:
            return self.journal.claim(key, attempt=self.attempt, token=token)
        self.sends = False
        try:
            entry = self.journal.claim(key, attempt=self.attempt, token=token, ledger=(self.outbound.begin(key),))
        except BaseException:
            self.outbound.call_off(written=False)
            raise
        if entry.recorded or entry.outstanding or entry.claim != token or entry.next_attempt_at is not None:
            self.outbound.call_off(written=True)
        return entry

    def attempt_once(
        self, key: EntryKey, token: str, effect: Callable[[Call], bytes | None], *, number: int
    ) -> bytes | None:
        """Try `effect`, and record what it returns after the ledger of its requests."""
        outbound = self.outbound
        outbound.enter(key)
        try:
            with where_interrupted(outbound.settle):
                value = effect(Call(key, number, self.cancellation, outbound))
        except Exception as raised:
            outbound.settle()
            raise failure_of(raised) from raised
        if value is None:
            self.journal.withdraw(key, token=token, ledger=outbound.settlement())
        else:
            self.journal.record(key, attempt=self.attempt, token=token, value=value, ledger=outbound.settlement())
        return value


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one attempt.

    `noticed` hears of every retry: the step, the attempt, the failure, the delay. `failed` hears of every try that
    failed, whatever follows: the step, the attempt, the failure.
    """

    journal: JournalStore
    clock: Clock
    chance: Chance
    attempt: Attempt
    outbound: Outbound
    cancellation: Cancellation
    noticed: Callable[[str, int, ContextfulError, int], None]
    tokens: Iterator[int] = field(default_factory=itertools.count)
    failed: Callable[[str, int, ContextfulError], None] = lambda *_: None
    unsure: dict[EntryKey, str] = field(default_factory=dict)

    def run(
        self,
        key: EntryKey,
        effect: Callable[[Call], bytes | None],
        *,
        schedule: Schedule,
        course: Course | None = None,
        likely_recorded: bool = False,
        sends: bool = False,
    ) -> Outcome:
        """Return the value of `key`: the recorded one, or the one `effect` returns, recorded before it is returned.

        Raise `StepFailed` when the failure stands, `Waiting` when the next try is more than 300 s away,
        `ExecutionSuperseded` when the attempt lost its owner, `StorageBindingUnavailable` when the store's answer was
        lost and nothing tells whether the value is recorded. Reading first spares a replay the write lock, so a caller
        that expects one says `likely_recorded`. One whose effect is certain to send, and that has no `course` of its
        own, says `sends`: the claim's batch then writes the intent.
        """
        self.cancellation.check()
        standing = self.journal.find(key) if likely_recorded else None
        waits = standing is not None and standing.next_attempt_at is not None
        course = course or Plain(self.journal, self.attempt, self.outbound, self.cancellation, sends and not waits)
        if standing is None or not standing.recorded:
            standing = self._claim(key, course)
        if standing.recorded:
            return Outcome(self.journal.value(standing), replayed=True)
        assert standing.claim is not None, "only a claimed entry is computed"
        with self._sure_of(key, standing.claim):
            return Outcome(self._compute(key, standing, effect, schedule=schedule, course=course), replayed=False)

    def note(self, key: EntryKey, *, attempts: int, due: int | None) -> None:
        """Leave `key` to its next caller with `attempts` used and the next one due at `due`; a recorded value stands.

        Raise `ExecutionSuperseded` when the attempt lost its owner.
        """
        entry = self._claim(key, Plain(self.journal, self.attempt, self.outbound, self.cancellation))
        if entry.claim is not None:
            self.journal.renew(key, token=entry.claim, attempts=attempts, next_attempt_at=due)
            self.journal.park(key, token=entry.claim)

    def _claim(self, key: EntryKey, course: Course) -> Entry:
        token = self.unsure.pop(key, None) or f"{self.attempt.run_id}.{next(self.tokens)}"
        while True:
            with self._sure_of(key, token):
                entry = course.claim(key, token=token)
            if entry.recorded or entry.claim == token:
                return entry
            self.cancellation.wait(self.clock, SIBLING_POLL_MS)

    def _compute(
        self,
        key: EntryKey,
        claim: Entry,
        effect: Callable[[Call], bytes | None],
        *,
        schedule: Schedule,
        course: Course,
    ) -> bytes | None:
        assert claim.claim is not None, "only a claimed entry is computed"
        attempts = claim.attempts
        if claim.next_attempt_at is not None:
            self._wait(key, claim.claim, due=claim.next_attempt_at)
        while True:
            attempts += 1
            try:
                return course.attempt_once(key, claim.claim, effect, number=attempts)
            except (ExecutionSuperseded, StorageBindingUnavailable):
                raise
            except GUARDED:
                self.journal.park(key, token=claim.claim)
                raise
            except Waiting:  # a step inside this one waits, and this one with it
                self.journal.park(key, token=claim.claim)
                raise
            except ContextfulError as failure:
                if isinstance(failure, Canceled) and self.cancellation.tripped:
                    # The effect has not failed, the run is stopped: what is left of its schedule is left to the next.
                    self.journal.park(key, token=claim.claim)
                    raise
                self.failed(key.step, attempts, failure)
                self._pause_or_fail(key, claim.claim, failure, attempts=attempts, schedule=schedule)

    @contextmanager
    def _sure_of(self, key: EntryKey, token: str) -> Iterator[None]:
        """Remember a claim that may stand, its answer lost or its call refused: the next caller goes on under it.

        One whose caller is ended from outside is given up: nobody is at it any more, and a sibling would wait for ever.
        """
        try:
            with where_interrupted(lambda: self.journal.park(key, token=token)):
                yield
        except BaseException as raised:
            if isinstance(raised, (StorageBindingUnavailable, *GUARDED, *interruptions())):
                self.unsure[key] = token
            raise

    def _pause_or_fail(
        self, key: EntryKey, token: str, failure: ContextfulError, *, attempts: int, schedule: Schedule
    ) -> None:
        jitter = self.chance.jitter(schedule.jitter_ms)
        decision = decide(schedule, attempt=attempts, failure=failure, jitter_ms=jitter)
        if isinstance(decision, Stands):
            # The last allowed try was told to wait: the next caller has its own budget, and waits all the same.
            wait_ms = failure.wait_ms if isinstance(failure, RateLimited) else None
            due = None if wait_ms is None else self.clock.now() + wait_ms
            self.journal.surrender(key, token=token, next_attempt_at=due)
            raise StepFailed(step=key.step, failure=failure, attempts=attempts) from failure
        due = self.clock.now() + decision.delay_ms
        self.journal.renew(key, token=token, attempts=attempts, next_attempt_at=due)
        self.noticed(key.step, attempts, failure, decision.delay_ms)
        self._wait(key, token, due=due)

    def _wait(self, key: EntryKey, token: str, *, due: int) -> None:
        """Wait, and claim the key once more: while we waited another attempt may have taken the owner.

        Our own claim stands as it is; a superseded attempt dispatches nothing (run.journal.current-owner). A wait
        too long to sleep gives the claim up, the count and the instant on its row (run.retry.resume-at).
        """
        milliseconds = due - self.clock.now()
        if milliseconds > LONGEST_SLEEP_MS:
            self.journal.park(key, token=token)
            raise Waiting(step=key.step, due_at=due)
        self.cancellation.wait(self.clock, milliseconds)
        self.journal.claim(key, attempt=self.attempt, token=token)


def _unnamed(entry: Entry) -> ContextfulError:
    """The refusal of a step that called a destination, of which nothing is recorded, and names none now."""
    step, execution_id, key = entry.key.step, entry.key.execution_id, entry.key.idempotency_key
    if entry.receipt is not None:
        return EffectSettled(step=step, execution_id=execution_id, receipt=entry.receipt, token=WHICHEVER)
    called = entry.destination or "its destination"
    return EffectElsewhere(
        step=step, execution_id=execution_id, idempotency_key=key, destination=called, named="no destination"
    )
