"""Awakeables over a SQL store: a row a wait, its payload recorded as a step's output in the batch that resolves it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from engine.errors import AwakeableAlreadyResolved, AwakeableTimedOut, AwakeableUnknown
from engine.shapes import Awakeable, AwakeableState
from engine.sql import call
from engine.unanswered import settled

if TYPE_CHECKING:
    from engine.journal import SqlJournal
    from engine.ports import Call, Database, Row


class SqlAwakeables:
    """`Awakeables` in the journal's own database (run.journal.sqlite-stores).

    A write whose answer is lost is settled by the state of the row (run.journal.d1-transport).
    """

    def __init__(self, database: Database, journal: SqlJournal) -> None:
        self._db = database
        self._journal = journal

    def mint(self, awakeable: Awakeable) -> None:
        """Persist the pending row."""
        minting = call(
            "mint_awakeable",
            token=awakeable.token,
            execution_id=awakeable.execution_id,
            step=awakeable.step,
            created_at=awakeable.created_at,
            deadline=awakeable.deadline,
            subject=awakeable.subject,
        )
        settled(
            lambda: self._db.run(minting),
            found=lambda: self._db.run(call("read_awakeable", token=awakeable.token))[0] or None,
        )

    def read(self, token: str) -> Awakeable:
        """The row as it stands."""
        rows = self._db.run(call("read_awakeable", token=token))[0]
        if not rows:
            raise AwakeableUnknown(token=token)
        return _awakeable(rows[0])

    def resolve(self, token: str, payload: bytes, *, at: int) -> bytes:
        """Resolve and record in one batch; the first payload stands."""
        awakeable = self.read(token)
        digest = hashlib.sha256(payload).hexdigest()
        if awakeable.state is AwakeableState.PENDING and at < awakeable.deadline:
            awakeable = self._offered(awakeable, payload, digest=digest, at=at)
        elif awakeable.state is AwakeableState.PENDING:
            self.time_out(token, at=at)
            raise AwakeableTimedOut(token=token, deadline_at=awakeable.deadline)
        return resolution(awakeable, payload, digest=digest)

    def time_out(self, token: str, *, at: int) -> bool:
        """Close the row if it is pending past its deadline."""
        return self._moved(token, call("time_out_awakeable", token=token, at=at)).state is AwakeableState.TIMED_OUT

    def pending(self, execution_id: str, *, at: int) -> list[Awakeable]:
        """The waits that still can be resolved."""
        rows = self._db.run(call("pending_awakeables", execution_id=execution_id, at=at))[0]
        return [_awakeable(row) for row in rows]

    def _offered(self, awakeable: Awakeable, payload: bytes, *, digest: str, at: int) -> Awakeable:
        """Resolve and return the wait as it stands, the payload's blob put again where a sweep doomed it meanwhile."""
        while awakeable.state is AwakeableState.PENDING:
            placed = self._journal.place(payload)
            arguments = {"token": awakeable.token, "payload_sha256": digest, "at": at, **placed}
            awakeable = self._moved(
                awakeable.token,
                call("resolve_awakeable", **arguments),
                call("record_resume", **arguments, input=awakeable.entry_key.input),
            )
        return awakeable

    def _moved(self, token: str, *calls: Call) -> Awakeable:
        """Run `calls` and return the wait as it stands."""

        def moved() -> Awakeable:
            self._db.run(*calls)
            return self.read(token)

        return settled(moved, found=lambda: self._ended(token))

    def _ended(self, token: str) -> Awakeable | None:
        awakeable = self.read(token)
        return None if awakeable.state is AwakeableState.PENDING else awakeable


def resolution(awakeable: Awakeable, payload: bytes, *, digest: str) -> bytes:
    """Return `payload` where it is what a wait was resolved with; raise what a resolution meets otherwise."""
    if awakeable.state is AwakeableState.TIMED_OUT:
        raise AwakeableTimedOut(token=awakeable.token, deadline_at=awakeable.deadline)
    if awakeable.payload_sha256 != digest:
        raise AwakeableAlreadyResolved(token=awakeable.token)
    return payload


def _awakeable(row: Row) -> Awakeable:
    token, execution_id, step, created_at, deadline, state, payload_sha256, subject = row
    return Awakeable(token, execution_id, step, created_at, deadline, AwakeableState(state), payload_sha256, subject)
