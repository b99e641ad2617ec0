"""What is unfinished: every execution that stands, how far it is, what it waits for and the verb that moves it on.

An execution that a guard protects is moved on by whatever releases the guard.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from engine.clock import instant
from engine.guards.guard import OWNER
from engine.guards.rules import EvidenceClass, Transfer
from engine.guards.store import Guards
from engine.pipeline.chunks import Chunk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.guards.guard import Standing
    from engine.owners import Owner
    from engine.pipeline.declaration import Export, Manifest, Table
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
class Guarded:
    """The guard that protects an execution: its token, what it takes to release it by hand, and where it was sent."""

    token: str
    evidence_class: str
    destination: str
    idempotency_key: str


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
    guard: Guarded | None
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
    known = _Declared(
        declared.project,
        {table.name: table for pipeline in declared.pipelines for table in pipeline.tables},
        {export.name: export for export in declared.exports},
    )
    unfinished = [owner for owner in owners if owner.finished_at is None]
    standing = {row: each for each in Guards(profile.database).all() for row in each.guard.protected}
    now = profile.database.now()
    return [
        _pending(profile, owner, known=known, guard=standing.get(OWNER + owner.scope), now=now) for owner in unfinished
    ]


@dataclass(frozen=True, slots=True)
class _Declared:
    """What the manifest declares, by name."""

    project: str
    tables: Mapping[str, Table]
    exports: Mapping[str, Export]


def _pending(profile: Profile, owner: Owner, *, known: _Declared, guard: Standing | None, now: int) -> Pending:
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
        guard=_guarded(guard) if guard else None,
        next=(_released(guard, known.project) if guard else None) or _next(owner, state, known=known),
    )


def _guarded(found: Standing) -> Guarded:
    guard = found.guard
    return Guarded(guard.token, str(found.evidence_class), guard.destination, guard.idempotency_key)


def _released(found: Standing, project: str) -> str | None:
    """What releases the guard, where that is neither its callback's return nor the execution's own verb."""
    guard = found.guard
    if found.ways.transfer is not Transfer.BLOCKED:
        return None
    reconcile = f"contextful storage reconcile-guard --project {project} --token {guard.token}"
    if found.evidence_class is EvidenceClass.REPLAY_SAFE:
        return (
            f"its engine may still be sending: once its exit is recorded it goes on by itself; where you know that it "
            f"is gone, {reconcile} --evidence idempotency:{guard.idempotency_key} --operator YOU"
        )
    return (
        f"look for the key {guard.idempotency_key} at {guard.destination}, then {reconcile} "
        f"--evidence receipt:{guard.idempotency_key}:ID --operator YOU (absent for ID where it never came)"
    )


def _state(owner: Owner, *, now: int, waits: bool) -> State:
    if owner.lease_until > now:
        return State.RUNNING
    if waits or (owner.wake_at is not None and owner.wake_at > now):
        return State.WAITING
    return State.PENDING


def _next(owner: Owner, state: State, *, known: _Declared) -> str:
    """The verb that moves the execution on."""
    tables = known.tables
    kind, _, name = owner.scope.partition(":")
    rewind = f"contextful run rewind {owner.execution_id} --reason TEXT"
    forced = rewind if owner.asked_pins else f"{rewind} --force"
    if chunk := Chunk.of(owner.scope):
        return _chunk_next(chunk, state, tables=tables)
    if kind == "export":
        return _export_next(owner, name, state, export=known.exports.get(name), rewind=forced)
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


def _export_next(owner: Owner, name: str, state: State, *, export: Export | None, rewind: str) -> str:
    if export is None:
        return f"declare export {name} again and run it, or {rewind}"
    run = f"contextful export run {name}"
    if state is State.RUNNING:
        return f"it is at work; {run} --wait 60s follows it, contextful run stop {owner.attempt} ends it"
    if export.content_hash != owner.plan_ref:
        return f"restore the declaration it was opened under and {run}, or {rewind}"
    if state is State.WAITING:
        return f"{run} goes on once its instant has come; --wait 60s sits it out"
    return run


def _host_next(owner: Owner, name: str, state: State, *, rewind: str) -> str:
    if state is State.RUNNING:
        return f"it is at work; its program ends it, contextful run stop {owner.attempt} stops it"
    if state is State.WAITING and owner.wake_at is not None:
        return f"run the program that opens {name!r} again once its instant has come"
    if state is State.WAITING:
        return "resolve what it waits for; its program goes on from there"
    return f"run the program that opens {name!r} again, or {rewind}"
