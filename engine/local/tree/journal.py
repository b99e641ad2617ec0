"""The journal as files: one a step, replaced whole under the lock of its execution."""

from __future__ import annotations

import math
import shutil
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from engine.clock import pauses
from engine.errors import ExecutionSuperseded, Refused
from engine.local.disk import refusing
from engine.local.tree.entries import awakeable_of, entry_content, entry_of, pull_number, referenced
from engine.shapes import INLINE_LIMIT, Attempt, BlobRef, Entry, EntryKey
from engine.sql import call

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from engine.local.tree.blobs import TreeBlobs
    from engine.local.tree.entries import Before
    from engine.local.tree.tree import Tree
    from engine.ports import Call, Database

PORTION: Final = 1000
"""How many blobs go while nobody can place one. Each portion reads anew what is referenced, so it is no small one."""


class TreeJournal:
    """A `JournalStore` apart from its catalog.

    The catalog says whether an attempt still holds its owner, a moment before the file is changed; in a SQL journal the
    two are one. An owner taken over in that moment lets the old attempt claim or record once more. What it records is
    what its effect returned, and the new attempt finds it like any value; what it claims, the new attempt takes over,
    since claims are changed under one lock and a record needs the claim that stands. So no value is recorded twice
    here either. Files of a retired execution are not born again: collecting takes the same lock, after the catalog has
    refused every later change.
    """

    def __init__(self, database: Database, tree: Tree, blobs: TreeBlobs) -> None:
        self._db = database
        self._tree = tree
        self._blobs = blobs

    def find(self, key: EntryKey) -> Entry | None:
        """The entry under `key`."""
        return self._read(self._tree.entry(key))

    def claim(self, key: EntryKey, *, attempt: Attempt, token: str, ledger: Sequence[Call] = ()) -> Entry:
        """Claim the key, or return the entry that stands in the way (run.journal.entry-key)."""
        with self._tree.changing(key.execution_id):
            self._require(attempt, ledger)
            standing = self.find(key)
            if standing is None:
                claimed = Entry(key, token, attempt.run_id, 0, None, None, None)
                self._tree.offer(self._tree.entry(key), entry_content(claimed))
                return claimed
            taken = standing.claim is not None and standing.run_id == attempt.run_id
            if standing.recorded or taken or (standing.outstanding and standing.claim != token):
                return standing
            # The count of attempts it takes over is on the disk and stays there.
            return self.put(replace(standing, claim=token, run_id=attempt.run_id))

    def renew(self, key: EntryKey, *, token: str, attempts: int, next_attempt_at: int | None) -> None:
        """Note the attempts used and the next instant on the claim."""
        with self._claimed(key, token) as entry:
            if entry:
                self.put(replace(entry, attempts=attempts, next_attempt_at=next_attempt_at))

    def surrender(self, key: EntryKey, *, token: str, next_attempt_at: int | None) -> None:
        """Leave the entry pending and unclaimed."""
        with self._claimed(key, token) as entry:
            if entry:
                self.put(replace(entry, claim=None, attempts=0, next_attempt_at=next_attempt_at))

    def park(self, key: EntryKey, *, token: str) -> None:
        """Leave the entry pending and unclaimed, its count and instant standing."""
        with self._claimed(key, token) as entry:
            if entry:
                self.put(replace(entry, claim=None))

    def drop_claims(self, execution_id: str) -> None:
        """Free every pending entry of the execution."""
        with self._tree.changing(execution_id):
            for entry in self.entries(execution_id):
                if entry.claim is not None:
                    self.put(replace(entry, claim=None))

    def record(self, key: EntryKey, *, attempt: Attempt, token: str, value: bytes, ledger: Sequence[Call] = ()) -> None:
        """Record `value` under the standing claim, its blob kept first where it is large."""
        with self.placed(value) as (inline, blob), self._claimed(key, token) as entry:
            holds = self._settle(attempt, ledger)
            if entry is None or not holds:
                raise ExecutionSuperseded(scope=attempt.scope, attempt=attempt.run_id)
            self.put(replace(entry, claim=None, next_attempt_at=None, value=inline, blob=blob))

    def withdraw(self, key: EntryKey, *, token: str, ledger: Sequence[Call] = ()) -> None:
        """Delete the pending entry of this claim."""
        with self._claimed(key, token) as entry:
            if ledger:
                self._db.run(*ledger)
            path = self._tree.entry(key)
            with refusing(path):
                if entry:
                    path.unlink(missing_ok=True)

    def value(self, entry: Entry) -> bytes:
        """The recorded bytes (run.journal.missing-blob)."""
        if entry.blob is not None:
            return self._blobs.get(entry.blob)
        assert entry.value is not None, "a pending entry has no value"
        return entry.value

    def entries(self, execution_id: str) -> list[Entry]:
        """Every entry of the execution."""
        found = [self._read(path) for path in self._files(execution_id, ".entry")]
        return sorted((entry for entry in found if entry), key=lambda entry: (entry.key.step, entry.key.input))

    def collection(self, execution_id: str) -> Sequence[Call]:
        """The note that files are to be deleted: it joins the retiring transaction (run.journal.collection)."""
        return (call("note_uncollected", execution_id=execution_id),)

    def collect(self, execution_id: str) -> None:
        """Delete the files of a retired execution, the names of its waits first, and then the note."""
        with self._tree.changing(execution_id):
            for path in self._files(execution_id, ".awakeable"):
                content = self._tree.read(path)
                if content:
                    pointer = self._tree.pointer(awakeable_of(content, path=path).token)
                    with refusing(pointer):
                        pointer.unlink(missing_ok=True)
            folder = self._tree.execution(execution_id)
            with refusing(folder):
                if folder.is_dir():
                    shutil.rmtree(folder)
        self._db.run(call("forget_uncollected", execution_id=execution_id))

    def pull_collection(self, execution_id: str, *, below: int) -> Sequence[Call]:  # noqa: ARG002 - nothing joins
        """Nothing joins: a file that a crash leaves behind a checkpoint is asked for no more."""
        return ()

    def collect_pulls(self, execution_id: str, *, below: int) -> None:
        """Delete the files of the pulls that a checkpoint has landed."""
        with self._tree.changing(execution_id):
            for path in self._files(execution_id, ".entry"):
                number = pull_number(self._tree.head(path), path=path)
                if number is not None and number < below:
                    with refusing(path):
                        path.unlink(missing_ok=True)

    def recollect(self) -> None:
        """Collect whatever is noted: a crash came between its retirement and its deletion."""
        for (execution_id,) in self._db.run(call("list_uncollected"))[0]:
            self.collect(execution_id)

    def unreferenced(self, *, older_than: int) -> list[str]:
        """What a sweep would delete."""
        with self._tree.sweeping():
            unused = self._blobs.older_than(older_than)
            kept = self._referenced() if unused else set()
        return [digest for digest in unused if digest not in kept]

    def sweep(self, *, older_than: int) -> list[str]:
        """Delete what nothing references while nobody can reference anything (run.journal.blob-sweep).

        Between two portions whoever waits to place a blob has its turn.
        """
        gone: list[str] = []
        between = pauses(first_s=0.05, longest_s=0.05, patience_s=math.inf)
        while portion := self._swept(older_than):
            gone += portion
            if len(portion) < PORTION:
                break
            between.pause()
        return gone

    def _swept(self, older_than: int) -> list[str]:
        with self._tree.sweeping():
            unused = list(self._blobs.unused_since(older_than))
            kept = self._referenced() if unused else set()
            portion = [digest for digest in unused if digest not in kept][:PORTION]
            self._blobs.delete(portion)
        return portion

    @contextmanager
    def placed(self, value: bytes) -> Iterator[tuple[bytes | None, BlobRef | None]]:
        """Place `value` inline or in a blob that no sweep takes before the block ends (run.journal.one-cutoff)."""
        if len(value) <= INLINE_LIMIT:
            yield value, None
            return
        with self._tree.placing():
            yield None, self._blobs.put(value)

    def resume(self, key: EntryKey, value: bytes | None, blob: BlobRef | None) -> None:
        """Record a resolved wait's payload, unless one is recorded; the caller holds the execution's lock."""
        if self.find(key) is None:
            self.put(Entry(key, None, "awakeable", 0, None, value, blob))

    def put(self, entry: Entry, *, before: Before | None = None) -> Entry:
        """Write the entry's file, whole; the caller holds the execution's lock.

        With `before` it reads as that until the audit row of an operator's evidence stands: no mark counts without it.
        """
        self._tree.put(self._tree.entry(entry.key), entry_content(entry, before=before))
        return entry

    def _require(self, attempt: Attempt, ledger: Sequence[Call]) -> None:
        """Refuse the ledger, and raise, unless `attempt` holds its owner."""
        try:
            self._db.run(call("require_attempt", **attempt.columns), *ledger)
        except Refused as refusal:
            if "superseded" in refusal.constraint:
                raise ExecutionSuperseded(scope=attempt.scope, attempt=attempt.run_id) from refusal
            raise

    def _settle(self, attempt: Attempt, ledger: Sequence[Call]) -> bool:
        """Put the ledger's statements on the disk, whatever follows; tell whether `attempt` holds its owner."""
        settled = [replace(c, statement=replace(c.statement, durable=True)) for c in ledger]
        *_, owners = self._db.run(*settled, call("active_attempt", scope=attempt.scope))
        return owners == [(attempt.execution_id, attempt.run_id, attempt.holder)]

    @contextmanager
    def _claimed(self, key: EntryKey, token: str) -> Iterator[Entry | None]:
        """Hold the execution's lock; yield the pending entry if `token` still claims it."""
        with self._tree.changing(key.execution_id):
            entry = self.find(key)
            yield entry if entry and entry.claim == token and not entry.recorded else None

    def _read(self, path: Path) -> Entry | None:
        content = self._tree.read(path)
        found = entry_of(content, execution_id=path.parent.name, path=path) if content else None
        if found is None:
            return None
        entry, before = found
        return before.entry if before and not self._audited(before) else entry

    def _audited(self, before: Before) -> bool:
        """Whether the audit row stands that ends `before`. A guard is reconciled once: no other row is like it."""
        key = before.entry.key
        looked = call("find_guard_audit", execution_id=key.execution_id, step=key.step, input=key.input)
        (audits,) = self._db.run(looked)
        return any((token, evidence) == (before.token, before.evidence) for token, evidence, *_ in audits)

    def _files(self, execution_id: str, suffix: str) -> list[Path]:
        return self._tree.files(self._tree.execution(execution_id), suffix=suffix)

    def _referenced(self) -> set[str]:
        executions = self._tree.files(self._tree.executions, suffix="")
        paths = [path for folder in executions for path in self._tree.files(folder, suffix=".entry")]
        return {digest for path in paths if (digest := referenced(self._tree.head(path), path=path))}
