"""Admission where guards and the journal share a database: claim and guard in one batch, release and record in one.

A write whose answer is lost is settled by the guard's own token before anything else is done under its scope (rule G7
of the guard protocol). An admission of which nothing tells is remembered, and undone by every later one of its scope:
it may still be applied, and once it is being undone nobody goes on under its token.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from engine.errors import ExecutionSuperseded, Refused, StorageBindingUnavailable
from engine.guards.asked import Admitted
from engine.guards.desk import settlement, suppliable
from engine.guards.refusals import blocking, refused
from engine.guards.rules import Mark
from engine.guards.store import Guards
from engine.shapes import Entry, EntryKey
from engine.sql import call
from engine.unanswered import settled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from engine.guards.asked import Asked
    from engine.guards.evidence import Evidence
    from engine.guards.guard import Guard
    from engine.journal import SqlJournal
    from engine.ports import Call, Database, JournalStore, Rows

MARKS: Final[Mapping[Mark, str]] = {Mark.CLEARED: "clear_admission", Mark.WITHDRAWN: "withdraw_admission"}
"""The statement that changes the entry's marks, where an ending changes them."""


class SqlAdmission:
    """An `Admission` over one SQL store."""

    def __init__(self, database: Database, journal: SqlJournal) -> None:
        self._db = database
        self._journal = journal
        self._unsettled: dict[str, list[tuple[Call, ...]]] = {}

    def admit(self, asked: Asked) -> Admitted | Entry:
        """Claim the entry and bind its guard in one batch (run.callback-guard.acquire)."""
        while True:
            try:
                *_, claimed, bound = self._asked(asked)
            except Refused as refusal:
                if meant := refused(refusal, asked, self._db):
                    raise meant from refusal
            else:
                return self._admitted(asked, claimed, bound)

    def record(self, admitted: Admitted, value: bytes) -> None:
        """Release the guard and record the value, in that order and in one batch (run.callback-guard.release)."""
        asked = admitted.asked
        while True:
            placed = self._journal.place(value)
            named = {**asked.entry, **asked.active, **placed, "claim": asked.claim, "guard": admitted.token}
            calls = [call(name, **named) for name in ("require_recordable", "release_guard", "record_entry")]
            try:
                self._finished(calls, asked, placed=placed)
            except Refused as refusal:
                if "superseded" not in refusal.constraint:
                    raise
                if placed["digest"] is None or not self._stands(admitted):
                    raise ExecutionSuperseded(scope=asked.attempt.scope, attempt=asked.attempt.run_id) from refusal
                # A sweep doomed the blob between its upload and this batch: putting it again waits until it is over.
                continue
            return

    def settle(self, admitted: Admitted, mark: Mark) -> None:
        """Release the guard without a value, the entry's marks changed first.

        Raise `ExecutionTransferBlocked` where an answer is outstanding and the window has passed: the guard stands.
        """
        asked = admitted.asked
        calls = _settling(asked, mark)
        try:
            rows = settled(lambda: self._db.run(*calls), found=lambda: self._released(admitted.token))
        except StorageBindingUnavailable:
            self._remember(asked, mark=mark)
            raise
        if rows and not rows[-1] and (standing := blocking(asked, self._db)):
            raise standing

    def undo(self, scope: str) -> None:
        """Undo what of `scope` was left unsettled: its attempt is about to end."""
        if calls := self._undoing(scope):
            self._db.run(*calls)
            del self._unsettled[scope]

    def settlement(self, guard: Guard, given: Evidence, value: bytes | None) -> Sequence[Call]:
        """The statement that settles the entry, for the batch that releases the guard by hand."""
        return (settlement(guard, given, None if value is None else self._journal.place(value)),)

    def supplying(self, guard: Guard, given: Evidence, value: bytes) -> Sequence[Call]:
        """The statements that record a receipt's value, for the batch that appends its audit row."""
        return (suppliable(guard, given), *self.settlement(guard, given, value))

    def settling(self, guard: Guard, given: Evidence, value: bytes | None) -> AbstractContextManager[None]:  # noqa: ARG002
        """Nothing to do around the batch: it settles the entry itself."""
        return nullcontext()

    def recording(self, guard: Guard, given: Evidence, value: bytes) -> AbstractContextManager[None]:  # noqa: ARG002
        """Nothing to do around the batch: it records the value itself."""
        return nullcontext()

    def awaits_value(self, guard: Guard, given: Evidence) -> bool:
        """Whether the receipt settled the entry, it has no value yet and no callback is out for it."""
        return awaits_value(self._journal, self._db, guard, given)

    def recalling(self) -> Sequence[Call]:
        """The statement that reads the guards and fills the entries, for the migration's batch."""
        return (call("recall_destinations"),)

    def _asked(self, asked: Asked) -> list[Rows]:
        names = ("refuse_inadmissible", "claim_admission", "acquire_guard")
        arguments = asked.arguments
        calls = (*self._undoing(asked.attempt.scope), *(call(name, **arguments) for name in names))
        try:
            return settled(lambda: self._db.run(*calls), found=lambda: self._found(asked))
        except StorageBindingUnavailable:
            self._remember(asked, mark=Mark.WITHDRAWN)
            raise

    def _admitted(self, asked: Asked, claimed: Rows, bound: Rows) -> Admitted | Entry:
        if not bound:
            return self._journal.find(asked.key) or Entry(asked.key, None, None, 0, None, None, None)
        assert len(bound) == len(asked.protected), "a statement binds every row or none"
        (attempts, next_attempt_at), (_, admitted_at, covered_until) = claimed[0], bound[0]
        return Admitted(asked, attempts, next_attempt_at, admitted_at, covered_until)

    def _finished(self, calls: Sequence[Call], asked: Asked, *, placed: Mapping[str, object]) -> None:
        """Run `calls`, and once more where they were not applied: the second meets the first by its own conditions."""

        def found() -> list[Rows] | None:
            return self._journal.recorded(asked.key, attempt=asked.attempt, placed=placed)

        try:
            settled(lambda: self._db.run(*calls), found=found)
        except StorageBindingUnavailable:
            try:
                settled(lambda: self._db.run(*calls), found=found)
            except Refused:
                if found() is None:
                    raise

    def _found(self, asked: Asked) -> list[Rows] | None:
        """What an admission answers that was applied; None where nothing tells that it was."""
        rows, entries = self._db.run(call("find_guard", token=asked.token), call("find_entry", **asked.entry))
        if entries and (entries[0][4] is not None or entries[0][5] is not None):
            return [[], []]
        if not rows or not entries or entries[0][1] != asked.claim:
            return None
        _, _, attempts, next_attempt_at, *_ = entries[0]
        return [[(attempts, next_attempt_at)], [(row[0], row[12], row[13]) for row in rows]]

    def _released(self, token: str) -> list[Rows] | None:
        return None if self._db.run(call("find_guard", token=token))[0] else []

    def _stands(self, admitted: Admitted) -> bool:
        asked = admitted.asked
        guarded = bool(self._db.run(call("find_guard", token=admitted.token))[0])
        return guarded and self._journal.stands(asked.key, attempt=asked.attempt, token=asked.claim)

    def _remember(self, asked: Asked, *, mark: Mark) -> None:
        self._unsettled.setdefault(asked.attempt.scope, []).append(_settling(asked, mark))

    def _undoing(self, scope: str) -> tuple[Call, ...]:
        return tuple(each for calls in self._unsettled.get(scope, ()) for each in calls)


def awaits_value(journal: JournalStore, database: Database, guard: Guard, given: Evidence) -> bool:
    """Whether `given` settled the entry of `guard`, it has no value yet and no guard protects its scope."""
    entry = journal.find(EntryKey(guard.execution_id, guard.step, guard.input))
    awaits = entry is not None and not entry.recorded and entry.receipt == given.text
    return awaits and Guards(database).protecting(guard.scope) is None


def _settling(asked: Asked, mark: Mark) -> tuple[Call, ...]:
    """Change the entry's marks while the guard stands, and release it: applied twice it is as applied once."""
    if mark is Mark.STAYS:
        return (call("release_covered", guard=asked.token),)
    return (call(MARKS[mark], **asked.entry, guard=asked.token), call("release_guard", guard=asked.token))
