"""What is unfinished: every execution that stands, how far it is, what it waits for and the verb that moves it on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from engine.clock import instant
from engine.pipeline.chunks import Chunk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.owners import Owner
    from engine.pipeline.declaration import Manifest, Table
    from engine.profile import Profile


class State(StrEnum):
    """Where an unfinished execution stands."""

    RUNNING = "running"
    WAITING = "waiting"
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class Wait:
    """An outside party's answer that a step waits for until `deadline`."""

    step: str
    token: str
    deadline: int


@dataclass(frozen=True, slots=True)
class Pending:
    """An unfinished execution: `recorded` of the `steps` it has begun are in the journal; `next` moves it on."""

    scope: str
    execution_id: str
    state: State
    attempt: str | None
    lease_until: int
    wake_at: int | None
    opened_at: int
    plan_ref: str
    steps: int
    recorded: int
    waits: tuple[Wait, ...]
    next: str

    def projection(self) -> dict[str, Any]:
        """The execution as every surface shows it, instants as text."""
        shown = asdict(self) | {"state": str(self.state)}
        for name in ("lease_until", "wake_at", "opened_at"):
            shown[name] = instant(shown[name] or None)
        shown["waits"] = [{"step": w.step, "token": w.token, "deadline": instant(w.deadline)} for w in self.waits]
        return shown


def pending(profile: Profile, owners: list[Owner], *, declared: Manifest) -> list[Pending]:
    """Every unfinished execution of `owners`, by scope."""
    tables = {table.name: table for pipeline in declared.pipelines for table in pipeline.tables}
    now = profile.database.now()
    return [_pending(profile, owner, tables=tables, now=now) for owner in owners if owner.finished_at is None]


def _pending(profile: Profile, owner: Owner, *, tables: Mapping[str, Table], now: int) -> Pending:
    entries = profile.journal.entries(owner.execution_id)
    waits = profile.awakeables.pending(owner.execution_id, at=now)
    state = _state(owner, now=now, waits=bool(waits))
    return Pending(
        owner.scope,
        owner.execution_id,
        state,
        owner.attempt,
        owner.lease_until,
        owner.wake_at,
        owner.opened_at,
        owner.plan_ref,
        steps=len(entries),
        recorded=sum(entry.recorded for entry in entries),
        waits=tuple(Wait(wait.step, wait.token, wait.deadline) for wait in waits),
        next=_next(owner, state, tables=tables),
    )


def _state(owner: Owner, *, now: int, waits: bool) -> State:
    if owner.lease_until > now:
        return State.RUNNING
    if waits or (owner.wake_at is not None and owner.wake_at > now):
        return State.WAITING
    return State.PENDING


def _next(owner: Owner, state: State, *, tables: Mapping[str, Table]) -> str:
    """The verb that moves the execution on."""
    kind, _, name = owner.scope.partition(":")
    rewind = f"contextful run rewind {owner.execution_id} --reason TEXT"
    forced = rewind if owner.asked_pins else f"{rewind} --force"
    if chunk := Chunk.of(owner.scope):
        return _chunk_next(chunk, state, tables=tables)
    if kind != "table":
        return _host_next(owner, name, state, rewind=forced)
    table = tables.get(name)
    if table is None:
        return f"declare table {name} again and run it, or {forced}"
    run = f"contextful pipeline run {table.pipeline_id} --table {name}"
    if state is State.RUNNING:
        return f"it is at work; {run} --wait 60s follows it, contextful run stop {owner.attempt} ends it"
    if owner.wake_at is not None and table.content_hash == owner.plan_ref:
        return f"contextful run resume-due goes on from its instant, as does {run}"
    if table.content_hash != owner.plan_ref:
        return f"restore the declaration it was opened under and {run}, or {forced}"
    return run


def _chunk_next(chunk: Chunk, state: State, *, tables: Mapping[str, Table]) -> str:
    if state is State.RUNNING:
        return "it is at work; its backfill ends it"
    table = tables.get(chunk.table)
    backfill = f"contextful pipeline backfill {table.pipeline_id if table else 'ID'} --table {chunk.table}"
    bounds = f"--from {chunk.window.start} --to {chunk.window.end}"
    again = (
        "repeat the backfill it belongs to" if table else f"declare table {chunk.table} again and repeat its backfill"
    )
    return f"{again}, or {backfill} {bounds} --rewind --reason TEXT --force"


def _host_next(owner: Owner, name: str, state: State, *, rewind: str) -> str:
    if state is State.RUNNING:
        return f"it is at work; its program ends it, contextful run stop {owner.attempt} stops it"
    if state is State.WAITING and owner.wake_at is not None:
        return f"run the program that opens {name!r} again once its instant has come"
    if state is State.WAITING:
        return "resolve what it waits for; its program goes on from there"
    return f"run the program that opens {name!r} again, or {rewind}"
