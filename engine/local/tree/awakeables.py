"""Awakeables as files of their execution, found by the hash of their token."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.awakeables import resolution
from engine.errors import AwakeableTimedOut, AwakeableUnknown
from engine.local.tree.entries import awakeable_content, awakeable_of
from engine.shapes import Awakeable, AwakeableState

if TYPE_CHECKING:
    from engine.local.tree.journal import TreeJournal
    from engine.local.tree.tree import Tree


class TreeAwakeables:
    """`Awakeables` beside the journal's files.

    A payload is recorded as the awaited step's output before the wait is marked resolved. A crash between the two is
    healed by whoever reads the wait next: the recorded value decides (run.suspend.resume-is-a-step-output).
    """

    def __init__(self, tree: Tree, journal: TreeJournal) -> None:
        self._tree = tree
        self._journal = journal

    def mint(self, awakeable: Awakeable) -> None:
        """Persist the pending wait, its pointer last: a token is known only once everything behind it stands."""
        path = self._tree.awakeable(awakeable.execution_id, awakeable.token)
        with self._tree.changing(awakeable.execution_id):
            if self._tree.read(path) is None:
                self._write(awakeable)
            pointer = self._tree.pointer(awakeable.token)
            if self._tree.read(pointer) is None:
                self._tree.put(pointer, awakeable.execution_id.encode())

    def read(self, token: str) -> Awakeable:
        """The wait as it stands, a recorded payload counted in."""
        pointer = self._tree.read(self._tree.pointer(token))
        if pointer is None:
            raise AwakeableUnknown(token=token)
        path = self._tree.awakeable(pointer.decode(), token)
        content = self._tree.read(path)
        if content is None:
            raise AwakeableUnknown(token=token)
        return self._healed(awakeable_of(content, path=path))

    def resolve(self, token: str, payload: bytes, *, at: int) -> bytes:
        """Record and then resolve; the first payload stands."""
        awakeable = self.read(token)
        digest = hashlib.sha256(payload).hexdigest()
        if awakeable.state is AwakeableState.PENDING and at < awakeable.deadline:
            awakeable = self._offered(awakeable, payload, digest=digest)
        elif awakeable.state is AwakeableState.PENDING:
            self.time_out(token, at=at)
            raise AwakeableTimedOut(token=token, deadline_at=awakeable.deadline)
        return resolution(awakeable, payload, digest=digest)

    def time_out(self, token: str, *, at: int) -> bool:
        """Close the wait if it is pending past its deadline."""
        with self._tree.changing(self.read(token).execution_id):
            awakeable = self.read(token)
            if awakeable.state is AwakeableState.PENDING and at >= awakeable.deadline:
                awakeable = self._write(replace(awakeable, state=AwakeableState.TIMED_OUT))
        return awakeable.state is AwakeableState.TIMED_OUT

    def pending(self, execution_id: str, *, at: int) -> list[Awakeable]:
        """The waits that still can be resolved."""
        folder = self._tree.execution(execution_id)
        found = [(self._tree.read(path), path) for path in self._tree.files(folder, suffix=".awakeable")]
        waits = [self._healed(awakeable_of(content, path=path)) for content, path in found if content]
        standing = [wait for wait in waits if wait.state is AwakeableState.PENDING and wait.deadline > at]
        return sorted(standing, key=lambda wait: (wait.created_at, wait.token))

    def _offered(self, awakeable: Awakeable, payload: bytes, *, digest: str) -> Awakeable:
        with self._journal.placed(payload) as place, self._tree.changing(awakeable.execution_id):
            standing = self.read(awakeable.token)
            if standing.state is not AwakeableState.PENDING:
                return standing
            self._journal.resume(standing.entry_key, *place)
            return self._write(replace(standing, state=AwakeableState.RESOLVED, payload_sha256=digest))

    def _healed(self, awakeable: Awakeable) -> Awakeable:
        if awakeable.state is not AwakeableState.PENDING:
            return awakeable
        entry = self._journal.find(awakeable.entry_key)
        if entry is None or not entry.recorded:
            return awakeable
        digest = hashlib.sha256(entry.value or b"").hexdigest() if entry.blob is None else entry.blob.sha256
        return replace(awakeable, state=AwakeableState.RESOLVED, payload_sha256=digest)

    def _write(self, awakeable: Awakeable) -> Awakeable:
        self._tree.put(self._tree.awakeable(awakeable.execution_id, awakeable.token), awakeable_content(awakeable))
        return awakeable
