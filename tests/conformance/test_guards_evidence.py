"""What is evidence that a guard may go, and what becomes of the entry it protected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import (
    Config,
    EffectSettled,
    ExecutionGuardEvidenceMismatch,
    ExecutionGuardUnknown,
)
from engine.guards.desk import Desk
from engine.shapes import INLINE_LIMIT
from engine.sql import call
from tests.guarded import (
    HOUR,
    Overtaken,
    again,
    desk,
    died_sending,
    engine_for,
    guards,
    left_sending,
    receipt,
    reconcile,
    recorded_bytes,
    replayable,
)
from tests.stores import LEASE, Effect, Store

if TYPE_CHECKING:
    from engine.guards.guard import Guard

UNKNOWN_FORMS = (
    *("", "{key}", "receipt:{key}", "receipt:{key}:", "receipt:{key}: ", "receipt::ch_1", "Receipt:{key}:1"),
    *("idempotency:{key}:x", "idempotency:{key}\n", "absent:{key}", "receipt:{key}:Absent", "receipt:{key}:ABSENT"),
    *("receipt:{key}:ch\x1b[2J", "receipt:{key}:\ud800"),
)


@pytest.mark.clause("run.callback-guard.evidence")
@pytest.mark.parametrize("form", ["idempotency:{other}", "receipt:{other}:ch_1", "receipt:{other}:absent"])
def test_evidence_that_names_another_key_releases_nothing(store: Store, form: str) -> None:
    dead = left_sending(store)

    with pytest.raises(ExecutionGuardEvidenceMismatch):
        reconcile(store, dead.guard, form.format(other="0" * 32))

    assert guards(store) == [dead.guard]
    assert desk(store).audits() == []


@pytest.mark.clause("run.callback-guard.evidence")
@pytest.mark.parametrize("text", UNKNOWN_FORMS)
def test_evidence_of_no_known_form_releases_nothing(store: Store, text: str) -> None:
    dead = left_sending(store)

    with pytest.raises(ExecutionGuardEvidenceMismatch):
        reconcile(store, dead.guard, text.format(key=dead.guard.idempotency_key))

    assert guards(store) == [dead.guard]


@pytest.mark.clause("run.callback-guard.evidence")
@pytest.mark.parametrize("window", [None, LEASE])
def test_without_a_window_that_covers_the_key_proves_nothing_and_a_receipt_does(
    store: Store, window: int | None
) -> None:
    dead = left_sending(store, window=window)

    with pytest.raises(ExecutionGuardEvidenceMismatch):
        reconcile(store, dead.guard, replayable(dead.guard))
    stood = guards(store)
    reconcile(store, dead.guard, receipt(dead.guard))

    assert stood == [dead.guard]
    assert guards(store) == []


@pytest.mark.clause("run.callback-guard.evidence")
def test_while_the_window_covers_the_key_releases_and_is_sent_again(store: Store) -> None:
    dead = died_sending(store)
    store.clock.advance(LEASE)

    reconcile(store, dead.guard, replayable(dead.guard))

    assert again(store, dead) == ("again", dead.keys)


@pytest.mark.clause("run.callback-guard.evidence")
def test_a_receipt_settles_the_entry_which_is_not_sent_again(store: Store) -> None:
    dead = left_sending(store, window=None)
    reconcile(store, dead.guard, receipt(dead.guard))

    with pytest.raises(EffectSettled) as refusal:
        again(store, dead, window=None)

    assert (refusal.value.receipt, refusal.value.token) == (receipt(dead.guard), dead.guard.token)
    assert "--value" in str(refusal.value)


@pytest.mark.clause("run.callback-guard.evidence")
def test_a_settled_entry_is_sent_again_only_while_its_window_covers(store: Store) -> None:
    dead = left_sending(store, window=LEASE * 2)
    reconcile(store, dead.guard, receipt(dead.guard))
    store.clock.advance(LEASE)
    passed = engine_for(store, window=LEASE * 2)

    with pytest.raises(EffectSettled):
        store.open(engine=passed).step(dead.guard.step, Effect(), destination="vendor")

    assert guards(store) == []


@pytest.mark.clause("run.callback-guard.evidence")
def test_a_receipt_stays_with_its_entry_through_a_later_release_by_the_key(store: Store) -> None:
    dead = left_sending(store)
    reconcile(store, dead.guard, receipt(dead.guard))
    again_dead = died_sending(store)
    store.clock.advance(LEASE)
    reconcile(store, again_dead.guard, replayable(again_dead.guard))
    store.clock.advance(HOUR)

    with pytest.raises(EffectSettled) as refusal:
        again(store, dead)

    assert again_dead.guard.idempotency_key == dead.guard.idempotency_key
    assert refusal.value.receipt == receipt(dead.guard)


@pytest.mark.clause("run.callback-guard.evidence")
@pytest.mark.parametrize("value", ["charged", "x" * INLINE_LIMIT])
def test_a_value_given_with_the_receipt_is_what_the_step_returns(store: Store, value: str) -> None:
    dead = left_sending(store, window=None)

    reconcile(store, dead.guard, receipt(dead.guard), value=recorded_bytes(value))

    assert again(store, dead, window=None) == (value, [])


@pytest.mark.clause("run.callback-guard.manual")
@pytest.mark.parametrize("operator", ["", "ops\nreleased by anna", "\x1b[31mops"])
def test_an_operator_who_is_no_name_releases_and_supplies_nothing(store: Store, operator: str) -> None:
    dead = left_sending(store)
    given = receipt(dead.guard)

    with pytest.raises(Config, match="is not a name"):
        desk(store).reconcile(dead.guard.token, evidence=given, operator=operator)
    stood = guards(store)
    reconcile(store, dead.guard, receipt(dead.guard))
    with pytest.raises(Config, match="is not a name"):
        desk(store).supply(dead.guard.token, evidence=given, operator=operator, value=recorded_bytes("charged"))

    assert stood == [dead.guard]
    assert [audit.operator for audit in desk(store).audits()] == ["ops"]
    assert [entry.recorded for entry in store.entries(dead.execution.execution_id)] == [False]


@pytest.mark.clause("run.callback-guard.evidence", "run.callback-guard.manual")
@pytest.mark.parametrize(
    ("identity", "value"), [("ch_1", None), ("ch_1", "charged"), ("ch_1", "x" * INLINE_LIMIT), ("absent", None)]
)
def test_evidence_is_not_kept_for_a_guard_that_goes_before_its_release(
    store: Store, identity: str, value: str | None
) -> None:
    dead = left_sending(store)
    before = store.entries(dead.execution.execution_id)
    database = store.here.profile.database

    def goes() -> None:
        database.run(call("release_guard", guard=dead.guard.token))

    with pytest.raises(ExecutionGuardUnknown):
        Desk(Overtaken(database, "audit_guard", goes), store.here.profile.admission).reconcile(
            dead.guard.token,
            evidence=receipt(dead.guard, identity),
            operator="ops",
            value=None if value is None else recorded_bytes(value),
        )

    assert store.entries(dead.execution.execution_id) == before
    assert desk(store).audits() == []


@pytest.mark.clause("run.callback-guard.evidence")
@pytest.mark.parametrize("evidence", [replayable, lambda guard: receipt(guard, "absent")])
def test_a_value_without_a_receipt_that_proves_it_is_refused(store: Store, evidence) -> None:
    dead = left_sending(store)

    with pytest.raises(ExecutionGuardEvidenceMismatch):
        reconcile(store, dead.guard, evidence(dead.guard), value=recorded_bytes("charged"))

    assert guards(store) == [dead.guard]


@pytest.mark.clause("run.callback-guard.evidence")
def test_the_destinations_word_that_it_never_saw_the_key_leaves_the_entry_to_be_sent(store: Store) -> None:
    dead = left_sending(store, window=None)

    reconcile(store, dead.guard, receipt(dead.guard, "absent"))

    assert again(store, dead, window=None) == ("again", dead.keys)


@pytest.mark.clause("run.callback-guard.evidence", "run.callback-guard.window")
def test_after_the_word_of_absence_the_window_begins_anew(store: Store) -> None:
    dead = left_sending(store)
    store.clock.advance(2 * HOUR)
    reconcile(store, dead.guard, receipt(dead.guard, "absent"))
    execution = store.open(engine=engine_for(store))
    seen: list[Guard] = []

    execution.step(dead.guard.step, Effect(lambda: seen.extend(guards(store))), destination="vendor")

    assert [guard.covered_until for guard in seen] == [store.clock.now() + HOUR]
