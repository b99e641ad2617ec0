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
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from engine.errors import (
    Canceled,
    ContextfulError,
    EffectSettled,
    EffectUnsettled,
    ExecutionSuperseded,
    ExecutionTransferBlocked,
    RateLimited,
    StepFailed,
    StorageBindingUnavailable,
    StorageFailure,
    Waiting,
)
from engine.execution.interruptions import interruptions
from engine.execution.plain import Plain
from engine.execution.retry import Stands, decide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.clock import Chance, Clock
    from engine.execution.call import Call
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


class Course(Protocol):
    """How an effect is claimed, tried and recorded: here, or at a destination under a guard."""

    def claim(self, key: EntryKey, *, token: str) -> Entry:
        """Claim `key`, or return the entry that stands in the way."""

    def attempt_once(
        self, key: EntryKey, token: str, effect: Callable[[Call], bytes | None], *, number: int
    ) -> bytes | None:
        """Try `effect` once, as try `number`, and record what it returns. Raise its tagged failure."""


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
        try:
            return Outcome(self._compute(key, standing, effect, schedule=schedule, course=course), replayed=False)
        except BaseException as raised:
            self._remember(key, _claim_of(standing), raised)
            raise

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
            try:
                entry = course.claim(key, token=token)
            except BaseException as raised:
                self._remember(key, token, raised)
                raise
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
        token, attempts = _claim_of(claim), claim.attempts
        if claim.next_attempt_at is not None:
            self._wait(key, token, due=claim.next_attempt_at)
        while True:
            attempts += 1
            try:
                return course.attempt_once(key, token, effect, number=attempts)
            except (ExecutionSuperseded, StorageBindingUnavailable):
                raise
            except GUARDED:
                self.journal.park(key, token=token)
                raise
            except Waiting:  # a step inside this one waits, and this one with it
                self.journal.park(key, token=token)
                raise
            except ContextfulError as failure:
                if isinstance(failure, Canceled) and self.cancellation.tripped:
                    # The effect has not failed, the run is stopped: what is left of its schedule is left to the next.
                    self.journal.park(key, token=token)
                    raise
                self.failed(key.step, attempts, failure)
                self._pause_or_fail(key, token, failure, attempts=attempts, schedule=schedule)

    def _remember(self, key: EntryKey, token: str, raised: BaseException) -> None:
        """Remember a claim that may stand, its answer lost or its call refused: the next caller goes on under it.

        One whose caller is ended from outside is given up: nobody is at it any more, and a sibling would wait for ever.
        """
        ended = interruptions()
        if isinstance(raised, ended):
            with suppress(StorageFailure):
                self.journal.park(key, token=token)
        if isinstance(raised, (StorageBindingUnavailable, *GUARDED, *ended)):
            self.unsure[key] = token

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


def _claim_of(entry: Entry) -> str:
    assert entry.claim is not None, "only a claimed entry is computed"
    return entry.claim
