"""What becomes of a value that an operator gives for a step which a receipt settled without one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from engine.errors import ExecutionGuardUnknown, StorageBindingUnavailable
from engine.guards.desk import Desk
from engine.shapes import INLINE_LIMIT, EntryKey
from tests.guarded import (
    Dead,
    again,
    asked,
    desk,
    engine_for,
    left_sending,
    receipt,
    reconcile,
    recorded_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.guards.evidence import Evidence
    from engine.guards.guard import Guard
    from engine.ports import Call, Database, Rows
    from tests.stores import Store


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
def test_a_value_given_later_for_a_receipt_is_what_the_step_returns(store: Store) -> None:
    dead = left_sending(store, window=None)
    reconcile(store, dead.guard, receipt(dead.guard))

    desk(store).supply(dead.guard.token, evidence=receipt(dead.guard), operator="ops", value=recorded_bytes("charged"))

    assert again(store, dead, window=None) == ("charged", [])
    assert [audit.evidence for audit in desk(store).audits()] == [receipt(dead.guard)] * 2


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
