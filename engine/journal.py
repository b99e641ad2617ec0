"""The journal over a SQL store: one row a step, recorded once, its value inline or in a blob."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.errors import ExecutionSuperseded, Refused
from engine.shapes import INLINE_LIMIT, Attempt, BlobRef, Entry, EntryKey
from engine.sql import call
from engine.unanswered import settled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.ports import Blobs, Call, Database, Row, Rows

SWEEP_GRACE_MS: Final = 3_600_000
"""How long a blob stays unreferenced before a sweep may take it: it is written ahead of the row that names it."""

SWEEP_EVERY_MS: Final = 86_400_000
"""How often the blobs of a store are swept, by whichever engine is there (run.journal.blob-sweep)."""


class SqlJournal:
    """A `JournalStore` in the catalog's own database, so that a retirement collects in its own transaction.

    A write whose answer is lost is settled by the claim that the row under its key bears (run.journal.d1-transport).
    """

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._db = database
        self._blobs = blobs

    def find(self, key: EntryKey) -> Entry | None:
        """The row under `key`."""
        rows = self._db.run(call("find_entry", **_columns(key)))[0]
        return _entry(key, rows[0]) if rows else None

    def claim(self, key: EntryKey, *, attempt: Attempt, token: str, ledger: Sequence[Call] = ()) -> Entry:
        """Claim the key, or return the row that stands in the way (run.journal.entry-key)."""
        columns = _columns(key)
        claim = call("claim_entry", **columns, **_active(attempt), claim=token)
        try:
            *_, claimed = settled(
                lambda: self._db.run(*ledger, claim), found=lambda: self._claimed(key, attempt=attempt, token=token)
            )
        except Refused as refusal:
            if "journal.run_id" in refusal.constraint:
                raise ExecutionSuperseded(scope=attempt.scope, attempt=attempt.run_id) from refusal
            raise
        if claimed:
            ((attempts, next_attempt_at, *guarded),) = claimed
            return Entry(key, token, attempt.run_id, attempts, next_attempt_at, None, None, *guarded)
        # Somebody was first. A row that is withdrawn before it is read leaves nobody's claim: the caller comes again.
        return self.find(key) or Entry(key, None, None, 0, None, None, None)

    def renew(self, key: EntryKey, *, token: str, attempts: int, next_attempt_at: int | None) -> None:
        """Note the attempts used and the next instant on the claim's row."""
        renewing = call("renew_claim", **_columns(key), claim=token, attempts=attempts, next_attempt_at=next_attempt_at)
        self._run(key, renewing, applied=lambda row: row is not None and (row.claim, row.attempts) == (token, attempts))

    def surrender(self, key: EntryKey, *, token: str, next_attempt_at: int | None) -> None:
        """Leave the row pending and unclaimed."""
        surrendering = call("surrender_claim", **_columns(key), claim=token, next_attempt_at=next_attempt_at)
        self._run(key, surrendering, applied=_unclaimed_by(token))

    def park(self, key: EntryKey, *, token: str) -> None:
        """Leave the row pending and unclaimed, its count and instant standing."""
        self._run(key, call("park_claim", **_columns(key), claim=token), applied=_unclaimed_by(token))

    def drop_claims(self, execution_id: str) -> None:
        """Free every pending row of the execution."""
        self._db.run(call("drop_claims", execution_id=execution_id))

    def record(self, key: EntryKey, *, attempt: Attempt, token: str, value: bytes, ledger: Sequence[Call] = ()) -> None:
        """Record `value` under the standing claim, its blob kept first where it is large."""
        while True:
            placed = self.place(value)
            recording = call("record_entry", **_columns(key), **placed, **_active(attempt), claim=token)
            if self._put(key, *ledger, recording, attempt=attempt, placed=placed):
                return
            if placed["digest"] is None or not self.stands(key, attempt=attempt, token=token):
                raise ExecutionSuperseded(scope=attempt.scope, attempt=attempt.run_id)
            # A sweep doomed the blob between its upload and this batch: putting it again waits until that is over.

    def withdraw(self, key: EntryKey, *, token: str, ledger: Sequence[Call] = ()) -> None:
        """Delete the pending row of this claim."""
        self._run(key, *ledger, call("withdraw_claim", **_columns(key), claim=token), applied=_unclaimed_by(token))

    def value(self, entry: Entry) -> bytes:
        """The recorded bytes (run.journal.missing-blob)."""
        if entry.blob is not None:
            return self._blobs.get(entry.blob)
        assert entry.value is not None, "a pending entry has no value"
        return entry.value

    def entries(self, execution_id: str) -> list[Entry]:
        """Every row of the execution."""
        rows = self._db.run(call("list_entries", execution_id=execution_id))[0]
        return [_entry(EntryKey(execution_id, step, label), tuple(rest)) for step, label, *rest in rows]

    def collection(self, execution_id: str) -> Sequence[Call]:
        """The deletes that join the retiring transaction (run.journal.collection)."""
        return (
            call("collect_entries", execution_id=execution_id),
            call("collect_awakeables", execution_id=execution_id),
        )

    def collect(self, execution_id: str) -> None:
        """Nothing is left to do: the retiring transaction has deleted the rows."""

    def pull_collection(self, execution_id: str, *, below: int) -> Sequence[Call]:
        """The delete that joins the checkpoint's transaction."""
        return (call("collect_pulls", execution_id=execution_id, below=below),)

    def collect_pulls(self, execution_id: str, *, below: int) -> None:
        """Nothing is left to do: the checkpoint's transaction has deleted the rows."""

    def recollect(self) -> None:
        """Nothing is ever left undone: one transaction retires and collects."""

    def unreferenced(self, *, older_than: int) -> list[str]:
        """What a sweep would doom, and what an interrupted one has."""
        return [digest for (digest,) in self._db.run(call("unreferenced_blobs", older_than=older_than))[0]]

    def sweep(self, *, older_than: int) -> list[str]:
        """Let the blobs go that nothing references (run.journal.blob-sweep)."""
        return self._blobs.sweep(older_than=older_than)

    def place(self, value: bytes) -> dict[str, bytes | str | int | None]:
        """The columns that hold `value`: itself up to the cutoff, past it a blob's digest (run.journal.one-cutoff)."""
        if len(value) <= INLINE_LIMIT:
            return {"value": value, "digest": None, "bytes": len(value)}
        reference = self._blobs.put(value)
        return {"value": None, "digest": reference.sha256, "bytes": reference.bytes}

    def recorded(self, key: EntryKey, *, attempt: Attempt, placed: Mapping[str, object]) -> list[Rows] | None:
        """What a record answers that has put `placed` under the key; None where the row is not so."""
        rows = self._db.run(call("find_entry", **_columns(key)))[0]
        wanted = (attempt.run_id, *placed.values())
        return [[(attempt.run_id,)] for row in rows if (row[0], *row[4:7]) == wanted] or None

    def stands(self, key: EntryKey, *, attempt: Attempt, token: str) -> bool:
        """Whether `token` still claims `key` for the active attempt."""
        active, entry = self._standing(key, attempt=attempt)
        return active and entry is not None and entry.claim == token

    def _run(self, key: EntryKey, *calls: Call, applied: Callable[[Entry | None], bool]) -> None:
        """Run `calls`; where their answer is lost, `applied` judges by the row under `key` if they went through."""
        settled(lambda: self._db.run(*calls), found=lambda: [] if applied(self.find(key)) else None)

    def _claimed(self, key: EntryKey, *, attempt: Attempt, token: str) -> list[Rows] | None:
        """What a claim answers that gave `token` the key or finds it recorded; None where neither is so."""
        active, entry = self._standing(key, attempt=attempt)
        if not active or entry is None or not (entry.recorded or entry.claim == token):
            return None
        guarded = (entry.admitted_at, entry.doubts, entry.receipt, entry.destination)
        return [[] if entry.recorded else [(entry.attempts, entry.next_attempt_at, *guarded)]]

    def _put(self, key: EntryKey, *calls: Call, attempt: Attempt, placed: Mapping[str, object]) -> bool:
        """Run `calls`, whose last records `placed`; tell whether it did."""
        *_, recorded = settled(
            lambda: self._db.run(*calls), found=lambda: self.recorded(key, attempt=attempt, placed=placed)
        )
        return bool(recorded)

    def _standing(self, key: EntryKey, *, attempt: Attempt) -> tuple[bool, Entry | None]:
        """Whether the attempt is its owner's active one, and the row under `key`."""
        owner, rows = self._db.run(call("read_owner", scope=attempt.scope), call("find_entry", **_columns(key)))
        held = (attempt.execution_id, attempt.run_id, attempt.holder)
        active = bool(owner) and (owner[0][1], *owner[0][5:7]) == held
        return active, _entry(key, rows[0]) if rows else None


def _unclaimed_by(token: str) -> Callable[[Entry | None], bool]:
    return lambda row: row is None or row.claim != token


def _columns(key: EntryKey) -> dict[str, str]:
    return {"execution_id": key.execution_id, "step": key.step, "input": key.input}


def _active(attempt: Attempt) -> dict[str, str]:
    return {"scope": attempt.scope, "run_id": attempt.run_id, "holder": attempt.holder}


def _entry(key: EntryKey, row: Row) -> Entry:
    run_id, claim, attempts, next_attempt_at, value, digest, size, *guarded = row
    blob = BlobRef(digest, size) if digest else None
    return Entry(key, claim, run_id, attempts, next_attempt_at, value, blob, *guarded)
