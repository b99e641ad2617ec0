"""What a backfill remembers: every window of its plan, and where each stands.

    pending ──begin──▶ running ──finish──▶ done
       ▲                  │
       └─ stopped, waits, failed, or found where its process died

A plan is known by what was asked for, so that asking again goes on with it. Machine state, never rebuilt.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from engine.pipeline.chunks import Chunk
from engine.shapes import canonical_json, domain_hash
from engine.sql import call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.pipeline.chunks import Span, Window
    from engine.pipeline.declaration import Table
    from engine.ports import Call, Database, Row


class ChunkState(StrEnum):
    """Where a window stands."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Planned:
    """Window `number` of a plan; `attempts` counts those that ended by themselves, `run_id` names the last one."""

    plan_id: str
    number: int
    chunk: Chunk
    state: ChunkState = ChunkState.PENDING
    attempts: int = 0
    run_id: str | None = None


class Plans:
    """The plans of a store."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def plan(self, table: Table, span: Span) -> list[Planned]:
        """The windows of `span` as they stand; one that nobody has asked for before is remembered."""
        scopes = [Chunk(table.name, window).scope for window in span.windows()]
        plan_id = plan_of(table, span)
        names = {"pipeline_id": table.pipeline_id, "table_name": table.name}
        self._db.run(call("plan_chunks", plan_id=plan_id, scopes=json.dumps(scopes), **names))
        return self.read(plan_id)

    def read(self, plan_id: str) -> list[Planned]:
        """The windows of a plan, in order."""
        return _planned(self._db.run(call("read_chunks", plan_id=plan_id))[0])

    def beside(self, table: Table, plan_id: str, window: Window) -> list[Planned]:
        """What other plans of the table have of `window`."""
        others = _planned(self._db.run(call("other_chunks", plan_id=plan_id, table_name=table.name))[0])
        return [other for other in others if other.chunk.window.overlaps(window)]

    def begin(self, planned: Planned, *, run_id: str) -> bool:
        """Mark the chunk as running under the attempt `run_id`, which holds its owner; tell whether it was not done."""
        named = {"plan_id": planned.plan_id, "number": planned.number, "run_id": run_id}
        return bool(self._db.run(call("begin_chunk", **named))[0])

    def give_back(self, planned: Planned, *, run_id: str, ended: int) -> None:
        """Return the chunk to pending, with `ended` attempts more: 1 after a failure, 0 after a stop or for a wait."""
        named = {"plan_id": planned.plan_id, "number": planned.number, "run_id": run_id}
        self._db.run(call("return_chunk", **named, ended=ended))


def finishing(planned: Planned, *, run_id: str) -> Call:
    """Return the statement that marks a chunk as done; it joins the batch that retires its owner."""
    return call("finish_chunk", plan_id=planned.plan_id, scope=planned.chunk.scope, run_id=run_id)


def unplanning(scope: str) -> Call:
    """Return the statement that leaves the window of a retired owner to be asked for afresh."""
    return call("unplan_chunks", scope=scope)


def plan_of(table: Table, span: Span) -> str:
    """The id of the plan that covers `span`."""
    asked = canonical_json(span.asked)
    return f"b-{domain_hash('contextful.backfill', table.pipeline_id, table.name, asked)[:24]}"


def _planned(rows: Iterable[Row]) -> list[Planned]:
    found = []
    for plan_id, number, scope, state, attempts, run_id in rows:
        if chunk := Chunk.of(scope):
            found.append(Planned(plan_id, number, chunk, ChunkState(state), attempts, run_id))
    return found
