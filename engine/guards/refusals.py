"""What a refused admission means: the constraint that an acquisition met, as a named error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import EffectSettled, EffectUnsettled, ExecutionSuperseded
from engine.guards.evidence import Proof, evidence
from engine.guards.store import Guards
from engine.sql import call

if TYPE_CHECKING:
    from engine.errors import ContextfulError, Refused
    from engine.guards.asked import Asked
    from engine.ports import Database


def refused(refusal: Refused, asked: Asked, database: Database) -> ContextfulError | None:
    """What `refusal` of an admission means (run.callback-guard.acquire); None where the guard it met is gone by now."""
    met = refusal.constraint
    if "unsettled" in met:
        return unsettled(asked)
    if "settled" in met:
        return settled(database, asked)
    if "UNIQUE" in met and "guards.protected" in met:
        return blocking(asked, database)
    if any(name in met for name in ("superseded", "guards.protected", "journal.run_id")):
        return ExecutionSuperseded(scope=asked.attempt.scope, attempt=asked.attempt.run_id)
    return refusal


def unsettled(asked: Asked) -> EffectUnsettled:
    """The refusal of an entry with an admission in doubt that no window covers (rule G2 of the guard protocol)."""
    return EffectUnsettled(
        step=asked.key.step,
        execution_id=asked.key.execution_id,
        idempotency_key=asked.key.idempotency_key,
        destination=asked.destination,
    )


def settled(database: Database, asked: Asked) -> EffectSettled:
    """The refusal of an entry that a receipt settled (rule G12)."""
    audits = database.run(call("find_guard_audit", **asked.entry))[0]
    found = [(token, text) for token, text, *_ in audits if evidence(text, token=token).proof is Proof.RECEIPT]
    # Where files keep the journal a crash may have come between the mark and its audit row.
    token, receipt = found[0] if found else ("TOKEN", f"receipt:{asked.key.idempotency_key}:ID")
    return EffectSettled(step=asked.key.step, execution_id=asked.key.execution_id, receipt=receipt, token=token)


def blocking(asked: Asked, database: Database) -> ContextfulError | None:
    """The guard that protects one of the wanted rows already."""
    guards = Guards(database)
    found = (guards.blocking(row) for row in asked.protected)
    return next((each for each in found if each), None)
