"""The outbox: what an export has decided to publish, kept until all of it is delivered (capability `outbox`).

    decide ──▶ rows of one decision ──recorded──▶ sent one by one ──▶ all delivered: position moves, rows go
       ╲─ interrupted ──▶ rows of no decision, dropped by whoever decides next

A decision counts once the journal records it, and only then is anything sent: so an interrupted one, or a late write of
a superseded attempt, leaves rows that nobody ever sends.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from engine.errors import ExecutionSuperseded, Refused, StorageUnusable
from engine.schedule import Schedule
from engine.shapes import INLINE_LIMIT, EntryKey, canonical_json
from engine.sql import call
from engine.unanswered import settled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.execution.held import Held
    from engine.exports.bodies import Body
    from engine.ports import Call, Database, Rows
    from engine.profile import Profile
    from engine.shapes import Attempt

WRITTEN_ROWS: Final = 50
WRITTEN_BYTES: Final = 3 << 20
"""Batches and bytes of one write: the binding carries bytes in base64."""

READ_BYTES: Final = 256 << 10
"""Bytes of bodies read at a time, one body at least: so most requests wait for no look of their own."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What an export publishes: its batches, rows and bytes, and the position it goes on from once all are delivered.

    `token` is its name in the outbox.
    """

    token: str
    batches: int
    rows: int
    bytes: int
    position: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Batch:
    """One request of a decision: `digest` is its body's, `delivered_at` the instant it was marked delivered."""

    ordinal: int
    digest: str
    bytes: int
    rows: int
    delivered_at: int | None


class Outbox:
    """The outbox of one export under one attempt."""

    def __init__(self, profile: Profile, held: Held, *, export: str) -> None:
        self._db: Database = profile.database
        self._journal = profile.journal
        self._held = held
        self._export = export
        # Beside a sealed journal no body lies open.
        self._inline = 0 if getattr(profile.journal, "sealed", False) else INLINE_LIMIT
        self._batches: list[Batch] = []
        self._ahead: dict[int, bytes | None] = {}

    def begin(self) -> dict[str, Any] | None:
        """Note the attempt on the export and return its position, None where it has none yet."""
        beginning = call("begin_export", export=self._export, run_id=self._attempt.run_id)
        ((position,),) = self._db.run(beginning)[0]
        return None if position is None else dict(json.loads(position))

    def fill(self, bodies: Iterable[Body], *, token: str) -> tuple[int, int, int]:
        """Write the rows of the decision `token` and return how many batches, rows and bytes they are.

        Raise `ExecutionSuperseded` where the attempt has lost its owner.
        """
        batches = rows = size = 0
        for group in _grouped(bodies):
            self._held.cancellation.check()
            self._write(group, token=token)
            batches += len(group)
            rows += sum(body.rows for body in group)
            size += sum(len(body.content) for body in group)
        return batches, rows, size

    def batches(self, decision: Decision) -> list[Batch]:
        """The batches of the decision in order; what an interrupted one has left goes."""
        named = {"execution_id": self._attempt.execution_id, "decision": decision.token}
        _, rows = self._db.run(call("drop_undecided", **named), call("list_outbox", **named))
        self._batches = [Batch(*row) for row in rows]
        return self._batches

    def content(self, decision: Decision, batch: Batch) -> bytes:
        """The body of one of the `batches`. Raise `StorageUnusable` where it is gone."""
        if batch.ordinal not in self._ahead:
            self._ahead = self._read(decision, batch)
        content = self._ahead.pop(batch.ordinal, None)
        if content is not None:
            return content
        entry = self._journal.find(self._apart(batch.ordinal, batch.digest))
        if entry is None or not entry.recorded:
            raise StorageUnusable(place=f"the outbox of {self._export}", reason=f"batch {batch.ordinal} has no body")
        return self._journal.value(entry)

    def mark(self, decision: Decision, ordinals: list[int]) -> None:
        """Mark batches whose delivery is recorded."""
        named = {"execution_id": self._attempt.execution_id, "decision": decision.token}
        self._db.run(call("mark_delivered", **named, ordinals=canonical_json(ordinals)))

    def moved(self, decision: Decision) -> tuple[Call, ...]:
        """The statements that join the retirement of an execution whose every batch is delivered."""
        position = None if decision.position is None else canonical_json(decision.position)
        moving = call("move_export", export=self._export, position=position, run_id=self._attempt.run_id)
        return (moving, *self.emptied())

    def emptied(self) -> tuple[Call, ...]:
        """The statement that joins the retirement of an execution that has decided nothing."""
        return (emptying(self._attempt.execution_id),)

    def _read(self, decision: Decision, first: Batch) -> dict[int, bytes | None]:
        """The bodies of `first` and of those after it: a decision's never change, so they may be read ahead."""
        last, size = first.ordinal, first.bytes
        for batch in self._batches[bisect_right(self._batches, last, key=attrgetter("ordinal")) :]:
            size += batch.bytes
            if size > READ_BYTES:
                break
            last = batch.ordinal
        named = {"execution_id": self._attempt.execution_id, "decision": decision.token}
        rows = self._db.run(call("read_bodies", **named, first=first.ordinal, last=last))[0]
        return {ordinal: None if content is None else bytes(content) for ordinal, content in rows}

    def _write(self, group: list[Body], *, token: str) -> None:
        calls = [self._row(body, token=token) for body in group]
        standing = call("require_attempt", **self._attempt.columns)
        try:
            settled(lambda: self._db.run(standing, *calls), found=lambda: self._found(group, token=token))
        except Refused as refusal:
            if "superseded" not in refusal.constraint:
                raise
            raise ExecutionSuperseded(scope=self._attempt.scope, attempt=self._attempt.run_id) from refusal

    def _row(self, body: Body, *, token: str) -> Call:
        inline = len(body.content) <= self._inline
        if not inline:
            key = self._apart(body.ordinal, body.digest)
            with self._held.outbound.within():
                self._held.steps.run(key, lambda _: body.content, schedule=Schedule())
        return call(
            "fill_outbox",
            execution_id=self._attempt.execution_id,
            decision=token,
            ordinal=body.ordinal,
            export=self._export,
            content=body.content if inline else None,
            digest=body.digest,
            bytes=len(body.content),
            rows=body.rows,
        )

    def _found(self, group: list[Body], *, token: str) -> list[Rows] | None:
        """Nothing to answer where the last of `group` stands, and so all of them; None where it does not."""
        named = {"execution_id": self._attempt.execution_id, "decision": token, "least": group[-1].ordinal}
        return [] if self._db.run(call("count_outbox", **named))[0] != [(0,)] else None

    def _apart(self, ordinal: int, digest: str) -> EntryKey:
        """The step under which the journal keeps a body that is not in the outbox itself."""
        return EntryKey(self._attempt.execution_id, f"body:{ordinal}", digest)

    @property
    def _attempt(self) -> Attempt:
        return self._held.attempt


def emptying(execution_id: str) -> Call:
    """The statement that deletes what an execution has in the outbox: it joins every retirement of one."""
    return call("clear_outbox", execution_id=execution_id)


def _grouped(bodies: Iterable[Body]) -> Iterator[list[Body]]:
    group: list[Body] = []
    size = 0
    for body in bodies:
        if group and (len(group) == WRITTEN_ROWS or size + len(body.content) > WRITTEN_BYTES):
            yield group
            group, size = [], 0
        group.append(body)
        size += len(body.content)
    if group:
        yield group
