"""One run of one chunk: as a table's, but of a window of history and beside the live position.

The position of the table is its tail's before and after, so a live run that commits meanwhile is neither moved nor in
the way. A chunk commits once: nothing says where a part of it would go on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.errors import Refused
from engine.pipeline.plans import finishing
from engine.pipeline.reconcile import caching_behind, commits_of, reconciled
from engine.pipeline.table_run import TableRun
from engine.shapes import RunStatus, canonical_json

if TYPE_CHECKING:
    from engine.corpus.marker import Marker
    from engine.execution.held import Held
    from engine.host import Engine
    from engine.pins import Pins
    from engine.pipeline.declaration import Table
    from engine.pipeline.plans import Planned, Plans
    from engine.pipeline.publication import Publication
    from engine.pipeline.source import Secrets
    from engine.pipeline.table_run import Watcher
    from engine.pipeline.walk import Walk
    from engine.ports import Call
    from engine.runs import RunRow


class ChunkRun(TableRun):
    """Runs the window `planned` of `table` once."""

    def __init__(
        self, engine: Engine, table: Table, planned: Planned, *, plans: Plans, secrets: Secrets, watcher: Watcher
    ) -> None:
        super().__init__(engine, table, secrets=secrets, watcher=watcher)
        self._planned, self._plans = planned, plans
        self._scope, self._start = planned.chunk.scope, planned.chunk.window.start
        self._window = planned.chunk.window

    def _land(self, walk: Walk, publication: Publication) -> RunRow:
        held = publication.held
        run_id = held.attempt.run_id
        if not self._plans.begin(self._planned, run_id=run_id):
            # Another process has landed it since this one looked.
            held.retire(held.ended(RunStatus.SUCCESS))
            return held.run
        ended = 0
        try:
            row = super()._land(walk, publication)
            ended = int(row.status is RunStatus.FAILED)
            return row
        finally:
            # What has succeeded is done, and stays so.
            self._plans.give_back(self._planned, run_id=run_id, ended=ended)

    def _pins(self, stored: Any) -> Pins:
        pins, window = super()._pins(stored), self._planned.chunk.window
        identities = (*pins.identities, ("window", window.text))
        return replace(pins, identities=identities, input_hash=canonical_json([window.start, window.end]))

    def _position_of(self, marker: Marker | None) -> Any:  # noqa: ARG002 - a chunk starts where its window does
        return None

    def _floor(self, stored: Any) -> Any:  # noqa: ARG002 - as above
        return self._start

    def _position(self, *_: Any) -> Any:
        """None: a commit without a position of its own keeps the tail's."""
        return None

    def _settling(self, held: Held, marker: Marker | None) -> tuple[Call, ...]:
        done = finishing(self._planned, run_id=held.attempt.run_id)
        return (done,) if marker is None else (done, caching_behind(self._table.name, marker))


def settled(engine: Engine, planned: Planned) -> Marker | None:
    """The commit of an attempt that died on its way to retire the chunk's owner: the chunk is done with it.

    None where there is none, or where its attempt is still alive (run.own.marker-reconciles).
    """
    chunk = planned.chunk
    newest, owner = reconciled(engine, chunk.table), engine.owners.read(chunk.scope)
    if owner is None:
        return None
    commits = commits_of(engine, chunk.table, newest, execution_id=owner.execution_id, opened_at=owner.opened_at)
    if not commits:
        return None
    try:
        engine.owners.withdraw(owner, also=(finishing(planned, run_id=commits[-1].by.run_id),))
    except Refused:
        return None  # its attempt is alive and about to retire itself
    engine.close_overtaken(owner.execution_id)
    return commits[-1]
