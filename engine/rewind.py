"""Rewinding: an operator gives an unfinished execution's recorded work up, and its scope is free for a fresh one.

The scope's committed position stays where it is (run.own.rewind). What may still be alive is never taken away: no flag
overrides that (run.own.rewind-unsafe).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from engine.clock import instant
from engine.errors import (
    ExecutionRewindNotPending,
    ExecutionRewindPlanCurrent,
    ExecutionRewindUnsafe,
    Refused,
)
from engine.exports.outbox import emptying
from engine.guards.guard import OWNER
from engine.guards.store import Guards
from engine.pipeline.chunk_run import settled
from engine.pipeline.chunks import Chunk
from engine.pipeline.plans import Planned, unplanning
from engine.runs import RunRow
from engine.shapes import RunStatus
from engine.sql import call

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.host import Engine
    from engine.owners import Owner
    from engine.pipeline.chunks import Window
    from engine.ports import Call

REWINDABLE: Final = ("table:", "host:", "export:")
"""Scopes a rewind by execution retires; a chunk's owner retires with its window (run.own.rewind-not-pending)."""


def rewind(
    engine: Engine, execution_id: str, *, reason: str, force: bool = False, pipelines: Mapping[str, str] | None = None
) -> RunRow:
    """Retire the pending owner of `execution_id` and return the one canceled row that records it.

    `pipelines` names the pipeline of each table. Raise `ExecutionRewindNotPending`, `ExecutionRewindUnsafe`,
    `ExecutionTransferBlocked` while a guard stands, or `ExecutionRewindPlanCurrent`, which alone `force` overrides
    (run.own.rewind-plan-current).
    """
    owner = _pending(engine, execution_id)
    _refuse(engine, owner, force=force)
    return _retired(engine, owner, reason=reason, pipelines=pipelines or {})


def rewind_window(
    engine: Engine, table: str, window: Window, *, reason: str, force: bool = False, pipelines: Mapping[str, str]
) -> list[RunRow]:
    """Retire the pending chunk owners of `table` that `window` covers (run.own.pin-mismatch-recovery).

    Return the rows that record it, one an owner; the windows are asked for afresh by the next backfill. One whose rows
    are committed already is done instead. Raise, before anything is retired, what `rewind` raises of one of them.
    """
    owners = _covered(engine, table, window)
    for owner in owners:
        _refuse(engine, owner, force=force)
    return [
        _retired(engine, owner, reason=reason, pipelines=pipelines, also=(unplanning(owner.scope),)) for owner in owners
    ]


def asked_plan(owner: Owner) -> str | None:
    """The plan reference a refused open asked for, where one did."""
    return None if owner.asked_pins is None else json.loads(owner.asked_pins)["plan_ref"]


def _pending(engine: Engine, execution_id: str) -> Owner:
    for owner in engine.owners.all():
        if owner.execution_id == execution_id and owner.finished_at is None:
            if owner.scope.startswith(REWINDABLE):
                return owner
            raise ExecutionRewindNotPending(execution_id=execution_id, scope=owner.scope)
    raise ExecutionRewindNotPending(execution_id=execution_id)


def _covered(engine: Engine, table: str, window: Window) -> list[Owner]:
    """The unfinished chunk owners within `window`, those whose rows are committed already retired as done."""
    found = []
    for owner in engine.owners.all():
        chunk = Chunk.of(owner.scope)
        if (
            chunk
            and chunk.table == table
            and window.covers(chunk.window)
            and not settled(engine, Planned("", 0, chunk))
        ):
            found.append(owner)
    return found


def _refuse(engine: Engine, owner: Owner, *, force: bool) -> None:
    _refuse_alive(engine, owner)
    if blocked := Guards(engine.profile.database).blocking(OWNER + owner.scope):
        raise blocked
    if owner.asked_pins is None and not force:
        raise ExecutionRewindPlanCurrent(execution_id=owner.execution_id, plan_ref=owner.plan_ref)


def _retired(
    engine: Engine, owner: Owner, *, reason: str, pipelines: Mapping[str, str], also: Sequence[Call] = ()
) -> RunRow:
    row = _record(engine, owner, reason=reason, pipelines=pipelines)
    unsent = (emptying(owner.execution_id),) if owner.scope.startswith("export:") else ()
    try:
        engine.owners.withdraw(owner, record=row, also=(call("require_no_wait", scope=owner.scope), *also, *unsent))
    except Refused as refusal:
        alive = f"an attempt has just taken {owner.scope}"
        raise ExecutionRewindUnsafe(execution_id=owner.execution_id, alive=alive) from refusal
    engine.archive.carry(row)
    engine.close_overtaken(owner.execution_id)
    return row


def _refuse_alive(engine: Engine, owner: Owner) -> None:
    """Raise `ExecutionRewindUnsafe` naming what of the execution may still act or be acted upon."""
    now = engine.profile.database.now()
    waits = engine.profile.awakeables.pending(owner.execution_id, at=now)
    alive = None
    if owner.lease_until > now:
        alive = f"attempt {owner.attempt} holds a lease until {instant(owner.lease_until)}"
    elif owner.wake_at is not None:
        # Past its instant too: whoever goes on with what is due takes it up at any moment.
        alive = f"attempt {owner.attempt} waits until {instant(owner.wake_at)}"
        refusal = ExecutionRewindUnsafe(execution_id=owner.execution_id, alive=alive)
        raise refusal.advising(f"end it, then rewind again: contextful run stop {owner.attempt}")
    elif waits:
        alive = f"step {waits[0].step} waits for an outside party until {instant(waits[0].deadline)}"
    if alive:
        raise ExecutionRewindUnsafe(execution_id=owner.execution_id, alive=alive)


def _record(engine: Engine, owner: Owner, *, reason: str, pipelines: Mapping[str, str]) -> RunRow:
    """The row of the retirement, started when the owner was opened (run.own.rewind-record).

    Its id is the execution's, so that two rewinds at one instant leave one row.
    """
    kind, _, name = owner.scope.partition(":")
    chunk = Chunk.of(owner.scope)
    table = chunk.table if chunk else name if kind == "table" else None
    return RunRow(
        f"rewind-{owner.execution_id}",
        RunStatus.CANCELED,
        owner.opened_at,
        ended_at=engine.profile.database.now(),
        execution_id=owner.execution_id,
        plan_ref=owner.plan_ref,
        table=table,
        chunk=chunk.window.text if chunk else None,
        host_scope={"host": name, "export": owner.scope}.get(kind),
        pipeline_id=pipelines.get(table) if table else None,
        site_id=engine.settings.site_id,
        reason=engine.settings.guard.value(reason)[0],
        trace_id=engine.trace_id(),
    )
