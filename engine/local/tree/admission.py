"""Admission where the journal is files: guards stand in the catalog, an entry's marks in its own file.

The two are changed one after the other, in the order that leaves no call unguarded and unrecorded: the guard is bound
before the entry is claimed, and released only after the entry says what came of it. A crash between the two leaves a
guard that stands too long, for a replay or an operator to release, and never one that stood too short. Evidence is
written into the entry beside what it was before, and counts from the audit row on, which the batch that releases the
guard appends.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.errors import (
    ContextfulError,
    ExecutionGuardUnknown,
    ExecutionSuperseded,
    GuardStepRecorded,
    Refused,
)
from engine.guards.admission import awaits_value
from engine.guards.asked import Admitted
from engine.guards.evidence import Proof
from engine.guards.refusals import blocking, refused, settled, unsettled
from engine.guards.rules import Admissible, Mark, admissible
from engine.guards.store import Guards
from engine.local.tree.entries import Before
from engine.shapes import Entry, EntryKey
from engine.sql import call

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from engine.guards.asked import Asked
    from engine.guards.evidence import Evidence
    from engine.guards.guard import Guard
    from engine.local.tree.journal import TreeJournal
    from engine.local.tree.tree import Tree
    from engine.ports import Call, Database, Rows
    from engine.shapes import BlobRef

    Placed = tuple[bytes | None, BlobRef | None]


class TreeAdmission:
    """An `Admission` apart from its journal: cooperative, each change under the execution's lock."""

    def __init__(self, database: Database, journal: TreeJournal, tree: Tree) -> None:
        self._db = database
        self._journal = journal
        self._tree = tree
        self._guards = Guards(database)

    def admit(self, asked: Asked) -> Admitted | Entry:
        """Bind the guard, then claim the entry."""
        with self._tree.changing(asked.key.execution_id):
            entry = self._journal.find(asked.key) or Entry(asked.key, None, None, 0, None, None, None)
            taken = entry.claim not in {None, asked.claim} and entry.run_id == asked.attempt.run_id
            if entry.recorded or taken:
                return entry
            self._require_admissible(entry, asked)
            return self._bound(entry, asked)

    def record(self, admitted: Admitted, value: bytes) -> None:
        """Record the value, then release the guard."""
        asked = admitted.asked
        with self._journal.placed(value) as (inline, blob), self._tree.changing(asked.key.execution_id):
            entry = self._journal.find(asked.key)
            if entry is None or entry.recorded or entry.claim != asked.claim or not self._holds(admitted):
                raise ExecutionSuperseded(scope=asked.attempt.scope, attempt=asked.attempt.run_id)
            self._journal.put(replace(entry, claim=None, next_attempt_at=None, value=inline, blob=blob))
            self._release(admitted.token)

    def settle(self, admitted: Admitted, mark: Mark) -> None:
        """Change the entry's marks, then release the guard, or let it stand where the window has passed unanswered."""
        with self._tree.changing(admitted.asked.key.execution_id):
            entry = self._journal.find(admitted.asked.key)
            if mark is Mark.STAYS:
                self._release_covered(admitted)
                return
            if entry and self._db.run(call("find_guard", token=admitted.token))[0]:
                self._journal.put(_marked(entry, admitted, mark))
            self._release(admitted.token)

    def undo(self, scope: str) -> None:
        """Nothing is ever left unsettled: no answer of a local file is lost."""

    def settlement(self, guard: Guard, given: Evidence, value: bytes | None) -> Sequence[Call]:  # noqa: ARG002
        """Nothing joins the batch that releases the guard: `settling` changes the entry around it."""
        return ()

    def supplying(self, guard: Guard, given: Evidence, value: bytes) -> Sequence[Call]:  # noqa: ARG002
        """Nothing joins the batch of the audit row: `recording` changes the entry around it."""
        return ()

    @contextmanager
    def settling(self, guard: Guard, given: Evidence, value: bytes | None) -> Iterator[None]:
        """Write into the entry's file what the evidence makes of it, then let the batch release the guard.

        It counts from the audit row on, which that batch appends: so the entry is settled in the same batch (rule G12),
        and a batch that is refused, fails or is not come to leaves the entry as it was.
        """
        with self._placed(value) as placed, self._tree.changing(guard.execution_id):
            # A takeover that replays takes no lock: it may still come before the batch, and is what that meets.
            self._db.run(call("require_reconcilable", guard=guard.token, proof=str(given.proof)))
            entry = self._journal.find(_key(guard))
            if entry is None or entry.recorded:
                if entry and value is not None and (entry.value, entry.blob) != placed:
                    refusal = GuardStepRecorded(token=guard.token, found="it is recorded already, with another value")
                    raise refusal.advising("leave --value out: the guard is released, and the recorded value stays")
                yield
                return
            self._journal.put(_settled(entry, given, placed), before=Before(entry, guard.token, given.text))
            yield

    @contextmanager
    def recording(self, guard: Guard, given: Evidence, value: bytes) -> Iterator[None]:
        """Let the batch append the audit row, then record the value, if the entry awaits it.

        A crash between the two leaves an audit row more, and the entry as the receipt settled it: it awaits the value
        still, which is given once more.
        """
        with self._placed(value) as placed, self._tree.changing(guard.execution_id):
            entry = self._journal.find(_key(guard))
            if entry is None or not self.awaits_value(guard, given):
                raise ExecutionGuardUnknown(token=guard.token)
            yield
            self._journal.put(_settled(entry, given, placed))

    def awaits_value(self, guard: Guard, given: Evidence) -> bool:
        """Whether the receipt settled the entry, it has no value yet and no callback is out for it."""
        return awaits_value(self._journal, self._db, guard, given)

    def recalling(self) -> Sequence[Call]:
        """Write into the entries' files what the guards tell; nothing joins the migration's batch.

        It goes before that batch: behind it a takeover replays a guard, and an entry that tells no destination may be
        sent to any. What a crash between the two leaves reads as before to the release before this one.
        """
        for execution_id, step, label, destination in self._db.run(call("list_guarded_entries"))[0]:
            with self._tree.changing(execution_id):
                entry = self._journal.find(EntryKey(execution_id, step, label))
                if entry and entry.admitted_at is not None and entry.destination is None:
                    self._journal.put(replace(entry, destination=destination))
        return ()

    def _placed(self, value: bytes | None) -> AbstractContextManager[Placed]:
        return nullcontext((None, None)) if value is None else self._journal.placed(value)

    def _require_admissible(self, entry: Entry, asked: Asked) -> None:
        """Raise what `refuse_inadmissible` refuses where the journal is a table."""
        if not entry.doubts and entry.receipt is None:
            return
        now = self._db.now()
        begun = entry.admitted_at
        covered = begun is not None and asked.window_ms is not None and now < begun + asked.window_ms
        elsewhere = entry.elsewhere(asked.destination)
        verdict = admissible(doubts=entry.doubts, receipt=entry.receipt, covered=covered, elsewhere=elsewhere)
        if verdict is Admissible.SEND or self._guards.protecting(asked.attempt.scope):
            return
        if verdict is Admissible.SETTLED:
            raise settled(self._db, asked)
        raise unsettled(asked, at=entry.destination)

    def _bound(self, entry: Entry, asked: Asked) -> Admitted:
        if entry.elsewhere(asked.destination):
            # Nothing is in doubt where it went before: here it begins anew.
            entry = replace(entry, admitted_at=None)
        bound = self._acquired(entry, asked)
        admitted = Admitted(
            asked, entry.attempts, entry.next_attempt_at, admitted_at=bound[0][1], covered_until=bound[0][2]
        )
        begun = entry.admitted_at if entry.admitted_at is not None else admitted.admitted_at
        first = replace(entry, admitted_at=begun, destination=asked.destination)
        try:
            self._journal.put(replace(first, claim=asked.claim, run_id=asked.attempt.run_id, doubts=entry.doubts + 1))
        except ContextfulError:
            self._release(asked.token)
            raise
        return admitted

    def _acquired(self, entry: Entry, asked: Asked) -> Rows:
        acquiring = call("acquire_guard_apart", **asked.arguments, first_admitted_at=entry.admitted_at)
        while True:
            try:
                return self._db.run(call("require_attempt", **asked.attempt.columns), acquiring)[1]
            except Refused as refusal:
                if meant := refused(refusal, asked, self._db):
                    raise meant from refusal

    def _holds(self, admitted: Admitted) -> bool:
        """Whether the guard stands and its attempt is the active one."""
        attempt = admitted.asked.attempt
        guards, owners = self._db.run(
            call("find_guard", token=admitted.token), call("active_attempt", scope=attempt.scope)
        )
        return bool(guards) and owners == [(attempt.execution_id, attempt.run_id, attempt.holder)]

    def _release_covered(self, admitted: Admitted) -> None:
        (released,) = self._db.run(call("release_covered", guard=admitted.token))
        if not released and (standing := blocking(admitted.asked, self._db)):
            raise standing

    def _release(self, token: str) -> None:
        self._db.run(call("release_guard", guard=token))


def _key(guard: Guard) -> EntryKey:
    return EntryKey(guard.execution_id, guard.step, guard.input)


def _settled(entry: Entry, given: Evidence, placed: Placed) -> Entry:
    """The unrecorded entry as the evidence settles it; `placed` is its value, where one goes with a receipt."""
    match given.proof:
        case Proof.REPLAY:
            return replace(entry, claim=None)
        case Proof.ABSENCE:
            return replace(entry, claim=None, doubts=0, admitted_at=None, destination=None)
        case Proof.RECEIPT:
            inline, blob = placed
            return replace(entry, claim=None, receipt=given.text, value=inline, blob=blob)


def _marked(entry: Entry, admitted: Admitted, mark: Mark) -> Entry:
    doubts = max(entry.doubts - 1, 0)
    if mark is Mark.CLEARED:
        return replace(entry, doubts=doubts)
    if mark is Mark.WITHDRAWN:
        if entry.doubts == 1 and entry.admitted_at == admitted.admitted_at:
            return replace(entry, doubts=0, admitted_at=None, destination=None)
        return replace(entry, doubts=doubts)
    return entry
