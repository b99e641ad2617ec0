"""What a batch about a guard meets in the store, whatever was known when it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import EffectSettled, ExecutionLive, Refused
from engine.guards.evidence import Proof, evidence
from engine.guards.rules import WAYS, Holder, Lease, Window
from engine.shapes import INLINE_LIMIT
from engine.sql import call
from tests.guarded import (
    admitted,
    engine_for,
    exits,
    guards,
    internal,
    left_sending,
    receipt,
    reconcile,
    recorded_bytes,
    replayable,
)
from tests.stores import LEASE, Effect, Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.guards.guard import Guard

EVIDENCE = [receipt, replayable, lambda guard: receipt(guard, "absent")]


@pytest.mark.clause("run.callback-guard.live-holder", "run.callback-guard.evidence")
@pytest.mark.parametrize("proof", Proof)
@pytest.mark.parametrize("place", WAYS, ids=str)
def test_a_release_by_hand_meets_the_guard_as_it_stands(
    store: Store, place: tuple[Holder, Lease, Window], proof: Proof
) -> None:
    holder, lease, window = place
    passes = LEASE if lease is Lease.LAPSED else LEASE - 1
    engine = store.stalled()
    ends = None if window is Window.NONE else passes + (window is Window.COVERS)
    out = admitted(engine, internal(engine, "job:score"), window=ends)
    if holder is Holder.GONE:
        exits(store, engine)
    store.clock.advance(passes)
    meets = (
        None
        if WAYS[place].manual and (proof is not Proof.REPLAY or window is Window.COVERS)
        else ("uncovered" if WAYS[place].manual else "held")
    )

    def batch(token: str) -> str | None:
        try:
            store.here.profile.database.run(call("require_reconcilable", guard=token, proof=str(proof)))
        except Refused as refusal:
            return refusal.constraint
        return None

    met = batch(out.token)
    assert (met is None) if meets is None else (meets in (met or ""))
    assert "released" in (batch("g-another") or "")


@pytest.mark.clause("run.callback-guard.manual")
@pytest.mark.parametrize("evidence_of", EVIDENCE)
def test_a_release_by_hand_frees_the_claim_of_its_entry(store: Store, evidence_of: Callable[[Guard], str]) -> None:
    dead = left_sending(store)
    (before,) = store.entries(dead.execution.execution_id)

    reconcile(store, dead.guard, evidence_of(dead.guard))

    (entry,) = store.entries(dead.execution.execution_id)
    assert before.claim is not None
    assert entry.claim is None


@pytest.mark.clause("run.callback-guard.manual")
@pytest.mark.parametrize("value", ["charged", "x" * INLINE_LIMIT])
@pytest.mark.parametrize("evidence_of", EVIDENCE)
def test_what_is_recorded_is_settled_no_more(store: Store, evidence_of: Callable[[Guard], str], value: str) -> None:
    engine = store.here
    out = admitted(engine, internal(engine, "job:score"))
    (guard,) = guards(store)
    engine.profile.admission.record(out, recorded_bytes(value))
    before = store.entries(guard.execution_id)

    given = evidence(evidence_of(guard), token=guard.token)
    other = recorded_bytes("other") if given.proof is Proof.RECEIPT else None
    settling = engine.profile.admission.settlement(guard, given, other)
    engine.profile.database.run(*settling)

    assert store.entries(guard.execution_id) == before


@pytest.mark.clause("run.callback-guard.evidence")
def test_a_settled_step_names_its_own_receipt_and_guard(store: Store) -> None:
    dead, later = left_sending(store, "first", window=None), left_sending(store, "second", window=None)
    for each in (dead, later):
        reconcile(store, each.guard, receipt(each.guard))

    with pytest.raises(EffectSettled) as refusal:
        store.open("first", engine=engine_for(store, window=None)).step("send", Effect(), destination="vendor")

    assert (refusal.value.token, refusal.value.receipt) == (dead.guard.token, receipt(dead.guard))


@pytest.mark.clause("run.callback-guard.replay")
def test_a_guard_over_a_row_that_somebody_works_under_is_not_replayed_by_whoever_asks_for_it(store: Store) -> None:
    gone, alive = store.stalled(), store.here
    item = internal(gone, "item:score:1")
    store.clock.advance(1)
    job = internal(alive, "job:score")
    out = admitted(gone, item, above=(job,))
    exits(store, gone)
    store.clock.advance(LEASE - 1)
    alive.leases._renew_if_due()

    with pytest.raises(ExecutionLive):
        internal(store.stalled(), "job:score")

    assert [each.token for each in guards(store)] == [out.token]
