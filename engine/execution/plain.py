"""The course of an effect that stays here or may be repeated: it is claimed, tried and recorded without a guard."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.errors import ContextfulError, EffectElsewhere, EffectSettled, StorageFailure
from engine.execution.call import Call
from engine.execution.failures import failure_of
from engine.execution.interruptions import interruptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.execution.cancellation import Cancellation
    from engine.execution.outbound import Outbound
    from engine.ports import JournalStore
    from engine.shapes import Attempt, Entry, EntryKey

WHICHEVER: Final = "TOKEN"
"""Stands for a guard's name where only the audit of what an operator reconciled tells it."""


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
            value = effect(Call(key, number, self.cancellation, outbound))
        except Exception as raised:
            outbound.settle()
            raise failure_of(raised) from raised
        except interruptions():
            with suppress(StorageFailure):
                outbound.settle()
            raise
        if value is None:
            self.journal.withdraw(key, token=token, ledger=outbound.settlement())
        else:
            self.journal.record(key, attempt=self.attempt, token=token, value=value, ledger=outbound.settlement())
        return value


def _unnamed(entry: Entry) -> ContextfulError:
    """The refusal of a step that called a destination, of which nothing is recorded, and names none now."""
    step, execution_id, key = entry.key.step, entry.key.execution_id, entry.key.idempotency_key
    if entry.receipt is not None:
        return EffectSettled(step=step, execution_id=execution_id, receipt=entry.receipt, token=WHICHEVER)
    called = entry.destination or "its destination"
    return EffectElsewhere(
        step=step, execution_id=execution_id, idempotency_key=key, destination=called, named="no destination"
    )
