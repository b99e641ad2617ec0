"""What is evidence that a guard may go, and what becomes of the entry it protected."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from engine.errors import (
    Config,
    EffectSettled,
    ExecutionGuardEvidenceMismatch,
    ExecutionGuardUnknown,
    StorageBindingUnavailable,
)
from engine.guards.desk import Desk
from engine.shapes import INLINE_LIMIT, EntryKey
from engine.sql import call
from tests.guarded import (
    HOUR,
    Dead,
    Overtaken,
    again,
    asked,
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
    from collections.abc import Callable

    from engine.guards.evidence import Evidence
    from engine.guards.guard import Guard
    from engine.ports import Call, Database, Rows

UNKNOWN_FORMS = (
    *("", "{key}", "receipt:{key}", "receipt:{key}:", "receipt:{key}: ", "receipt::ch_1", "Receipt:{key}:1"),
    *("idempotency:{key}:x", "idempotency:{key}\n", "absent:{key}", "receipt:{key}:Absent", "receipt:{key}:ABSENT"),
    *("receipt:{key}:ch\x1b[2J", "receipt:{key}:\ud800"),
)


@dataclass
class Unheard:
    """A store whose answer to the batch that holds the statement `name` is lost; it never came where not `applies`."""

    real: Database
    name: str
    applies: bool = True
    meanwhile: Callable[[], None] | None = None

    def run(self, *calls: Call) -> list[Rows]:
        lost = self.name in [each.statement.name for each in calls]
        answer = self.real.run(*calls) if self.applies or not lost else []
        if not lost:
            return answer
        if self.meanwhile:
            self.meanwhile()
        raise StorageBindingUnavailable(place="the store", reason="no answer", applied="unknown")

    def now(self) -> int:
        return self.real.now()


def supply(store: Store, dead: Dead, value: str, *, over: Database | None = None, operator: str = "ops") -> None:
    """Give the value of a step that its receipt settled without one."""
    profile = store.here.profile
    Desk(over or profile.database, profile.admission).supply(
        dead.guard.token, evidence=receipt(dead.guard), operator=operator, value=recorded_bytes(value)
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


@pytest.mark.clause("run.callback-guard.evidence")
def test_a_value_given_later_for_a_receipt_is_what_the_step_returns(store: Store) -> None:
    dead = left_sending(store, window=None)
    reconcile(store, dead.guard, receipt(dead.guard))

    desk(store).supply(dead.guard.token, evidence=receipt(dead.guard), operator="ops", value=recorded_bytes("charged"))

    assert again(store, dead, window=None) == ("charged", [])
    assert [audit.evidence for audit in desk(store).audits()] == [receipt(dead.guard)] * 2


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


@pytest.mark.clause("run.callback-guard.evidence")
@pytest.mark.parametrize("how", ["never reconciled", "another receipt", "absence", "recorded already"])
def test_a_value_is_taken_later_only_for_the_receipt_that_settled_an_unrecorded_step(store: Store, how: str) -> None:
    dead = left_sending(store, window=None)
    given = receipt(dead.guard, "absent" if how == "absence" else "ch_1")
    if how != "never reconciled":
        reconcile(store, dead.guard, given, value=recorded_bytes("first") if how == "recorded already" else None)
    before = (store.entries(dead.execution.execution_id), desk(store).audits())

    with pytest.raises(ExecutionGuardUnknown):
        desk(store).supply(
            dead.guard.token,
            evidence=receipt(dead.guard, "ch_2") if how == "another receipt" else given,
            operator="ops",
            value=recorded_bytes("second"),
        )

    assert (store.entries(dead.execution.execution_id), desk(store).audits()) == before


@pytest.mark.clause("run.callback-guard.evidence")
@pytest.mark.parametrize("what", ["given by another", "sent again"])
def test_a_value_that_is_overtaken_is_not_recorded_and_not_said_to_be(
    store: Store, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    dead = left_sending(store)
    reconcile(store, dead.guard, receipt(dead.guard))
    admission = store.here.profile.admission
    awaits = admission.awaits_value

    def overtakes() -> None:
        if what == "sent again":
            engine = engine_for(store)
            key = EntryKey(dead.guard.execution_id, dead.guard.step, dead.guard.input)
            admission.admit(replace(asked(engine, store.open(engine=engine)._held), key=key))
        else:
            supply(store, dead, "first")

    def looks_and_is_overtaken(guard: Guard, given: Evidence) -> bool:
        monkeypatch.undo()
        found = awaits(guard, given)
        overtakes()
        return found

    monkeypatch.setattr(admission, "awaits_value", looks_and_is_overtaken)
    with pytest.raises(ExecutionGuardUnknown):
        supply(store, dead, "second")

    (entry,) = store.entries(dead.execution.execution_id)
    assert entry.value == (None if what == "sent again" else recorded_bytes("first"))
    assert (entry.claim is not None) == (what == "sent again")
    assert len(desk(store).audits()) == (1 if what == "sent again" else 2)


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
@pytest.mark.parametrize("blank", ["sqlite"], indirect=True)
@pytest.mark.parametrize("value", ["charged", "x" * INLINE_LIMIT])
def test_a_value_whose_answer_is_lost_is_known_by_what_stands(store: Store, value: str) -> None:
    dead = left_sending(store)
    reconcile(store, dead.guard, receipt(dead.guard))

    supply(store, dead, value, over=Unheard(store.here.profile.database, "audit_guard"))

    (entry,) = store.entries(dead.execution.execution_id)
    assert store.here.profile.journal.value(entry) == recorded_bytes(value)
    assert len(desk(store).audits()) == 2


@pytest.mark.clause("run.callback-guard.evidence")
@pytest.mark.parametrize("blank", ["sqlite"], indirect=True)
@pytest.mark.parametrize("instead", [None, ("ops", "another"), ("anna", "charged")])
def test_a_value_that_never_arrived_is_not_said_to_be_recorded(store: Store, instead: tuple[str, str] | None) -> None:
    dead = left_sending(store)
    reconcile(store, dead.guard, receipt(dead.guard))
    lost = Unheard(store.here.profile.database, "audit_guard", applies=False)
    if instead:
        operator, value = instead
        lost.meanwhile = lambda: supply(store, dead, value, operator=operator)

    with pytest.raises(StorageBindingUnavailable):
        supply(store, dead, "charged", over=lost)

    (entry,) = store.entries(dead.execution.execution_id)
    assert entry.value == (recorded_bytes(value) if instead else None)


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
