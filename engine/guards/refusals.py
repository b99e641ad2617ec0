"""What a refused admission means: the constraint that an acquisition met, as a named error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import EffectElsewhere, EffectSettled, EffectUnsettled, ExecutionSuperseded
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
        return unsettled(asked, at=_called(database, asked))
    if "settled" in met:
        return settled(database, asked)
    if "UNIQUE" in met and "guards.protected" in met:
        return blocking(asked, database)
    if any(name in met for name in ("superseded", "guards.protected", "journal.run_id")):
        return ExecutionSuperseded(scope=asked.attempt.scope, attempt=asked.attempt.run_id)
    return refusal


def unsettled(asked: Asked, *, at: str | None) -> EffectUnsettled:
    """The refusal of an entry with an admission in doubt that nothing covers (rule G2 of the guard protocol).

    `at` is the destination of its first admission, None where that is not known.
    """
    key = asked.key
    named = {"step": key.step, "execution_id": key.execution_id, "idempotency_key": key.idempotency_key}
    if at in {None, asked.destination}:
        return EffectUnsettled(**named, destination=asked.destination)
    return EffectElsewhere(**named, destination=at, named=asked.destination)


def settled(database: Database, asked: Asked) -> EffectSettled:
    """The refusal of an entry that a receipt settled (rule G12)."""
    audits = database.run(call("find_guard_audit", **asked.entry))[0]
    found = [(token, text) for token, text, *_ in audits if evidence(text, token=token).proof is Proof.RECEIPT]
    # The release before this one left an entry's file so where a crash came between the mark and its audit row.
    token, receipt = found[0] if found else ("TOKEN", f"receipt:{asked.key.idempotency_key}:ID")
    return EffectSettled(step=asked.key.step, execution_id=asked.key.execution_id, receipt=receipt, token=token)


def _called(database: Database, asked: Asked) -> str | None:
    """The destination that the entry was first admitted to."""
    rows = database.run(call("find_entry", **asked.entry))[0]
    return rows[0][-1] if rows else None  # the last column of find_entry


def blocking(asked: Asked, database: Database) -> ContextfulError | None:
    """The guard that protects one of the wanted rows already."""
    guards = Guards(database)
    found = (guards.blocking(row) for row in asked.protected)
    return next((each for each in found if each), None)
