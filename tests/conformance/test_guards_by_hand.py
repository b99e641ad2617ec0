"""The operator's way out of a guard: what is seen of it, what releases it, and what is left to say it was done."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from engine.clock import instant
from engine.errors import (
    ExecutionGuardEvidenceMismatch,
    ExecutionGuardHeld,
    ExecutionGuardUnknown,
    ExecutionSuperseded,
    ExecutionTransferBlocked,
    Transient,
)
from engine.guards.guard import Guard
from tests.guarded import (
    HOUR,
    admitted,
    desk,
    died_sending,
    engine_for,
    exits,
    guards,
    internal,
    left_sending,
    receipt,
    reconcile,
    replayable,
    standing,
)
from tests.stores import LEASE, Effect, Store, failing


@pytest.mark.clause("run.callback-guard.manual")
def test_reconciling_deletes_the_guard_and_appends_its_audit_row(store: Store) -> None:
    dead = left_sending(store, window=None)

    reconcile(store, dead.guard, receipt(dead.guard))

    (audit,) = desk(store).audits()
    assert guards(store) == []
    assert (audit.token, audit.evidence, audit.operator) == (dead.guard.token, receipt(dead.guard), "ops")
    assert audit.at == store.clock.now()
    assert Guard.of(audit.guard) == dead.guard


@pytest.mark.clause("run.callback-guard.manual")
def test_a_dry_run_says_what_follows_and_changes_nothing(store: Store) -> None:
    dead = left_sending(store, window=None)
    before = store.entries(dead.execution.execution_id)

    decided = desk(store).reconcile(dead.guard.token, evidence=receipt(dead.guard), operator="ops", dry_run=True)

    assert "settled" in decided.follows
    assert guards(store) == [dead.guard]
    assert desk(store).audits() == []
    assert store.entries(dead.execution.execution_id) == before


@pytest.mark.clause("run.callback-guard.manual")
@pytest.mark.parametrize("why", ["held", "uncovered", "another key"])
def test_a_dry_run_refuses_what_the_release_would_refuse(store: Store, why: str) -> None:
    dead = died_sending(store, window=None) if why == "held" else left_sending(store, window=None)
    evidence = {
        "held": receipt(dead.guard),
        "uncovered": replayable(dead.guard),
        "another key": f"receipt:{'0' * 32}:1",
    }[why]

    with pytest.raises(ExecutionGuardHeld if why == "held" else ExecutionGuardEvidenceMismatch):
        desk(store).reconcile(dead.guard.token, evidence=evidence, operator="ops", dry_run=True)


@pytest.mark.clause("run.callback-guard.manual")
def test_a_guard_is_reconciled_once(store: Store) -> None:
    dead = left_sending(store)
    reconcile(store, dead.guard, replayable(dead.guard))

    for evidence in (replayable(dead.guard), receipt(dead.guard)):
        with pytest.raises(ExecutionGuardUnknown):
            reconcile(store, dead.guard, evidence)

    assert len(desk(store).audits()) == 1


@pytest.mark.clause("run.callback-guard.live-holder")
@pytest.mark.parametrize("evidence", [replayable, receipt, lambda guard: receipt(guard, "absent"), lambda _: "hearsay"])
def test_a_guard_whose_lease_runs_and_whose_holder_records_no_exit_is_held(store: Store, evidence) -> None:
    dead = died_sending(store)
    store.clock.advance(LEASE - 1)

    with pytest.raises(ExecutionGuardHeld) as refusal:
        reconcile(store, dead.guard, evidence(dead.guard))

    assert (refusal.value.token, refusal.value.lease_until) == (dead.guard.token, store.clock.now() + 1)
    assert guards(store) == [dead.guard]
    assert desk(store).audits() == []


@pytest.mark.clause("run.callback-guard.live-holder")
@pytest.mark.parametrize("freed", ["lapsed", "exited"])
def test_either_a_lapsed_lease_or_an_exit_lets_evidence_release(store: Store, freed: str) -> None:
    dead = died_sending(store, gone=freed == "exited")
    store.clock.advance(LEASE if freed == "lapsed" else 0)

    reconcile(store, dead.guard, receipt(dead.guard, "absent"))

    assert guards(store) == []


@pytest.mark.clause("run.callback-guard.live-holder")
def test_an_attempt_that_is_closed_holds_its_guard_no_more_though_its_engine_lives(store: Store) -> None:
    execution = store.open(engine=engine_for(store, window=None))
    with pytest.raises(ExecutionTransferBlocked), execution:
        execution.step("send", Effect(failing(Transient("no answer"))), destination="vendor")
    (found,) = standing(store)

    reconcile(store, found.guard, receipt(found.guard, "absent"))

    assert (found.lease_until, found.holder_exited_at) == (0, None)
    assert guards(store) == []


@pytest.mark.clause("run.callback-guard.live-holder")
def test_the_lease_that_counts_is_that_of_the_attempt_in_the_guard_and_not_of_every_row(store: Store) -> None:
    stalled = store.stalled()
    item = internal(stalled, "item:score:1")
    store.clock.advance(LEASE - 1)
    job = internal(store.here, "job:score")
    guard = admitted(stalled, item, above=(job,), window=None)
    store.clock.advance(1)

    desk(store).reconcile(guard.token, evidence=f"receipt:{guard.asked.key.idempotency_key}:absent", operator="ops")

    assert guards(store) == []


@pytest.mark.clause("run.callback-guard.manual")
def test_release_by_hand_ends_the_lease_so_that_a_stalled_engine_neither_renews_nor_acquires(store: Store) -> None:
    dead = died_sending(store, window=None)
    store.clock.advance(LEASE)
    reconcile(store, dead.guard, receipt(dead.guard, "absent"))

    store.wake(dead.engine)
    dead.engine.leases.register()
    effect = Effect()
    with pytest.raises(ExecutionSuperseded):
        dead.execution.step("next", effect, destination="vendor")

    assert effect.calls == 0
    owner = store.owner()
    assert owner is not None
    assert owner.lease_until <= store.clock.now()
    assert store.open(engine=engine_for(store)).resumed


@pytest.mark.clause("run.callback-guard.inspect")
@pytest.mark.parametrize("window", [None, HOUR])
def test_a_guard_is_shown_whole(store: Store, window: int | None) -> None:
    dead = died_sending(store, window=window)
    held = replace(standing(store)[0])
    exits(store, dead.engine)

    shown = json.loads(json.dumps(desk(store).guards(dead.guard.token)[0].projection()))

    lease_until = dead.guard.admitted_at + LEASE
    assert shown == {
        "token": dead.guard.token,
        "scopes": ["host:job"],
        "leases": [],
        "scope": "host:job",
        "execution_id": dead.execution.execution_id,
        "attempt": dead.execution.run_id,
        "holder": dead.engine.leases.holder,
        "entry": {"step": "send", "input": dead.guard.input},
        "idempotency_key": dead.keys[0],
        "kind": "effect",
        "destination": "vendor",
        "window": window and window / 1000,
        "admitted_at": instant(dead.guard.admitted_at),
        "covered_until": instant(window and dead.guard.admitted_at + window),
        "evidence_class": "replay-safe" if window else "unknown",
        "owner_lease_expires_at": instant(lease_until),
        "holder_exited_at": instant(store.clock.now()),
    }
    assert held.projection()["holder_exited_at"] is None


@pytest.mark.clause("run.callback-guard.inspect")
def test_every_guard_is_listed_the_oldest_first_and_an_unknown_token_is_told(store: Store) -> None:
    second = died_sending(store, "second")
    store.clock.advance(1)
    first = died_sending(store, "first")

    assert [each.guard.token for each in desk(store).guards()] == [second.guard.token, first.guard.token]
    with pytest.raises(ExecutionGuardUnknown):
        desk(store).guards("g-unknown")
