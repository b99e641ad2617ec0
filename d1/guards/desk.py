"""The operator's desk in the Worker: what it reads, what it makes of it, and the one batch that releases a guard. Pure.

request ──looking──▶ D1 ──looked──▶ listed
                               └──▶ planned ──one batch──▶ D1 ──applied──▶ the plan's document
                                                           └──refused──▶ what the batch met
                                                           └──no answer: look again, `shows` tells whether it was
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.errors import (
    ExecutionGuardUnknown,
    ExecutionSchemaIncompatible,
    GuardStepRecorded,
    GuardValueUnsealed,
    OperatorProjectElsewhere,
)
from engine.guards.desk import audit, by_hand, decision, met, outcome, settlement, suppliable
from engine.guards.evidence import Proof
from engine.guards.evidence import evidence as read
from engine.guards.guard import Guard
from engine.guards.store import standing
from engine.instants import instant
from engine.seals import MARK, key_of
from engine.sql import SCHEMA_VERSION, call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from d1.guards.requests import Reconcile
    from engine.errors import ContextfulError
    from engine.guards.evidence import Evidence
    from engine.guards.guard import Standing
    from engine.ports import Call


@dataclass(frozen=True, slots=True)
class Audit:
    """What an operator did about a guard; `recorded` says whether its step has a value by now."""

    evidence: str
    operator: str
    at: int
    guard: Guard
    recorded: bool

    @property
    def projection(self) -> dict[str, Any]:
        """The audit row as the Worker tells it."""
        at = instant(self.at)
        return {"evidence": self.evidence, "operator": self.operator, "at": at, "recorded": self.recorded}


@dataclass(frozen=True, slots=True)
class Looked:
    """What stands: the store's own marks, the guards asked for, and what was done about the one."""

    meta: dict[str, str]
    standing: list[Standing]
    audits: list[Audit]


@dataclass(frozen=True, slots=True)
class Plan:
    """The batch that does what was asked, and what is answered once it was applied."""

    calls: tuple[Call, ...]
    document: dict[str, Any]
    standing: Standing | None
    token: str

    def refused(self, constraint: str) -> ContextfulError | None:
        """The error that a refused batch means."""
        if self.standing is None:
            return GuardStepRecorded(
                token=self.token, found="it has one, is being sent again, or its execution is over"
            )
        return met(constraint, self.standing)


def looking(token: str | None) -> tuple[Call, ...]:
    """What is read before anything is answered."""
    if token is None:
        return (call("read_meta"), call("list_guards"))
    return (call("read_meta"), call("find_guard", token=token), call("find_reconciled", token=token))


def looked(rows: Sequence[Sequence[Any]], *, project: str) -> Looked:
    """What the rows say. Raise `ExecutionSchemaIncompatible` or `OperatorProjectElsewhere` for a store of another."""
    meta: dict[str, str] = {name: value for name, value in rows[0]}  # noqa: C416 - a row is a list here
    if meta.get("schema") != str(SCHEMA_VERSION):
        raise ExecutionSchemaIncompatible(found=meta.get("schema", "none"), supported=str(SCHEMA_VERSION))
    if meta.get("project") != project:
        raise OperatorProjectElsewhere(project=project, found=meta.get("project", "nobody"))
    audits = [_audit(*row) for row in rows[2]] if len(rows) > 2 else []
    return Looked(meta, standing([tuple(row) for row in rows[1]]), audits)


def listed(found: Looked, *, token: str | None, now: int) -> dict[str, Any]:
    """The guards as the Worker tells them. Raise `ExecutionGuardUnknown` where the one asked for does not stand."""
    if token is not None and not found.standing:
        raise unknown(found, token=token)
    return {"guards": [each.projection() for each in found.standing], "now": instant(now)}


def planned(found: Looked, asked: Reconcile) -> Plan:
    """What reconciling comes to: nothing is sent for a dry run.

    Raise `ExecutionGuardUnknown`, `ExecutionGuardHeld`, `ExecutionGuardEvidenceMismatch`, `GuardStepRecorded` or
    `GuardValueUnsealed`.
    """
    if asked.value is not None:
        _require_sealed(asked.value, key=found.meta.get(MARK), token=asked.token)
    if not found.standing:
        return _supplying(found, asked)
    decided = decision(found.standing[0], asked.evidence, valued=asked.value is not None)
    guard, given = decided.standing.guard, decided.evidence
    settling = (settlement(guard, given, _placed(asked.value)),)
    calls = by_hand(guard, given, operator=asked.operator, settling=settling)
    return Plan(() if asked.dry_run else calls, _document(asked, given), decided.standing, asked.token)


def shows(found: Looked, asked: Reconcile) -> bool:
    """Whether what stands can only be what was asked for: its answer was lost and it was applied."""
    audited = any((each.evidence, each.operator) == (asked.evidence, asked.operator) for each in found.audits)
    valued = asked.value is None or any(each.recorded for each in found.audits)
    return not found.standing and audited and valued


def unknown(found: Looked, *, token: str) -> ExecutionGuardUnknown:
    """The refusal of a token under which no guard stands, with what was done about it."""
    return ExecutionGuardUnknown(token=token, released=found.audits[-1].projection if found.audits else None)


def _supplying(found: Looked, asked: Reconcile) -> Plan:
    """The value of a step that a receipt settled without one."""
    given = read(asked.evidence, token=asked.token)
    settled = next((each for each in found.audits if each.evidence == given.text), None)
    if settled is None or asked.value is None or given.proof is not Proof.RECEIPT:
        raise unknown(found, token=asked.token)
    if settled.recorded:
        raise GuardStepRecorded(token=asked.token, found="it is recorded already")
    guard = settled.guard
    calls = (
        suppliable(guard, given),
        audit(guard, given, operator=asked.operator),
        settlement(guard, given, _placed(asked.value)),
    )
    return Plan(() if asked.dry_run else calls, _document(asked, given), None, asked.token)


def _document(asked: Reconcile, given: Evidence) -> dict[str, Any]:
    valued = asked.value is not None
    return outcome(asked.token, given, operator=asked.operator, valued=valued, dry_run=asked.dry_run)


def _placed(value: bytes | None) -> dict[str, Any] | None:
    return None if value is None else {"value": value, "digest": None, "bytes": len(value)}


def _require_sealed(value: bytes, *, key: str | None, token: str) -> None:
    """Raise `GuardValueUnsealed` unless the value is sealed exactly as the store seals."""
    used = key_of(value)
    if used == key:
        return
    if key is None:
        found = f"it is sealed under key {used}, and this store records values as they are"
    else:
        found = f"this store is sealed under key {key}, and it is {f'sealed under {used}' if used else 'not sealed'}"
    refusal = GuardValueUnsealed(token=token, found=found)
    if key is None:
        refusal.remedy = "leave CONTEXTFUL_SEAL_KEY unset for this project and run the same command again"
    raise refusal


def _audit(evidence: str, operator: str, at: int, guard: str, recorded: int) -> Audit:
    return Audit(evidence, operator, at, Guard.of(json.loads(guard)), bool(recorded))
