"""Starting a table over: from a position, from nothing, or without its rows.

Both verbs refuse while an execution is unfinished: its recorded pulls belong to the position they were asked at.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine import cursors
from engine.corpus import drop as corpus
from engine.corpus.commit import Terms, reposition
from engine.corpus.marker import Committer, Marker, history, tail
from engine.errors import ExecutionPending, PositionSpelling
from engine.pipeline.chunks import Chunk
from engine.pipeline.reconcile import caching, reconciled, scope_of
from engine.pipeline.sources import open_source
from engine.sql import call
from engine.status import State

if TYPE_CHECKING:
    from engine.host import Engine
    from engine.owners import Owner
    from engine.pipeline.declaration import Table


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a table stands: its newest commit, None before the first, and the rows ever landed."""

    table: str
    newest: Marker | None
    rows: int

    @property
    def position(self) -> Any:
        """The committed position, None where there is none."""
        return self.newest.position if self.newest else None


def standing(engine: Engine, table: str) -> Standing:
    """Where `table` stands. Raise `ExecutionPending` while an execution of it is unfinished.

    One whose final commit stands is finished, however its process ended: it is retired here.
    """
    reconciled(engine, table)
    refuse_pending(engine, table)
    markers = list(history(engine.profile.objects, table))
    return Standing(table, markers[-1] if markers else None, sum(marker.rows for marker in markers))


def refuse_pending(engine: Engine, table: str) -> None:
    """Raise `ExecutionPending` naming the unfinished execution of `table`, if one stands."""
    owner = engine.owners.read(scope_of(table))
    if owner is not None:
        raise _pending(engine, owner)


def parsed(table: Table, text: str, *, standing: Any) -> Any:
    """The position `text` spells for `table`: a watermark's value, or a position as JSON.

    Raise `PositionSpelling` for a value that does not order with the `standing` position, or is no JSON where the
    position is the source's own.
    """
    try:
        value = json.loads(text)
    except ValueError:
        value = text
        if table.incremental is None:
            raise PositionSpelling(table=table.name, found=text, expected="JSON, as the source gives it") from None
    if table.incremental is None:
        return value
    if isinstance(value, dict):
        if set(value) != {"field", "at"} or value["field"] != table.incremental:
            expected = f'{{"field": "{table.incremental}", "at": VALUE}}'
            raise PositionSpelling(table=table.name, found=text, expected=expected)
        value = value["at"]
    at = standing.get("at") if isinstance(standing, dict) else None
    if isinstance(at, str) and not isinstance(value, str):
        value = text
    rank = cursors.rank(value)
    before = None if at is None else cursors.rank(at)
    if rank is None or (before and before[0] != rank[0]):
        expected = f"a value that orders with {cursors.shown(at)}" if before else "a number, an instant or text"
        raise PositionSpelling(table=table.name, found=text, expected=expected)
    return cursors.watermark(table.incremental, value)


def reset(engine: Engine, table: Table, position: Any) -> Marker:
    """Publish `position`, None to start over, and touch no row."""
    newest = tail(engine.profile.objects, table.name)
    execution_id, run_id = engine.chance.execution_id(), engine.chance.run_id()
    declared = open_source(table).cursor_kind
    terms = Terms(
        table.name,
        Committer(run_id, run_id, execution_id, engine.settings.site_id),
        cursors.kind_of(incremental=table.incremental, declared=declared),
        position=position,
        primary_key=newest.primary_key if newest else table.primary_key,
    )
    committed = reposition(
        engine.profile.objects,
        terms,
        now=engine.profile.database.now,
        check_owner=lambda: refuse_pending(engine, table.name),
    )
    engine.profile.database.run(caching(table.name, committed.marker))
    return committed.marker


def drop(engine: Engine, table: str) -> int:
    """Delete every row and commit of `table`, forget its position and its backfills; tell how many commits it had.

    Raise `ExecutionPending` while a run of it, or of a window of its history, is unfinished.
    """
    refuse_pending(engine, table)
    for owner in engine.owners.all():
        chunk = Chunk.of(owner.scope)
        if chunk and chunk.table == table:
            raise _pending(engine, owner)
    commits = corpus.drop(engine.profile.objects, table)
    forgotten = (call("forget_cursor", table_name=table), call("forget_chunks", table_name=table))
    engine.profile.database.run(*forgotten)
    return commits


def _pending(engine: Engine, owner: Owner) -> ExecutionPending:
    alive = owner.lease_until > engine.profile.database.now()
    state = State.RUNNING if alive else State.PENDING
    return ExecutionPending(scope=owner.scope, execution_id=owner.execution_id, state=str(state))
