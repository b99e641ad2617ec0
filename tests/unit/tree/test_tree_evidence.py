"""Evidence where entries are files: what a crash or a failed batch leaves between an entry's file and the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import ExecutionTransferBlocked, GuardStepRecorded, Refused, StorageBusy, StorageUnusable
from engine.guards.desk import Desk
from engine.guards.evidence import evidence
from engine.local.tree import tree as trees
from engine.sql import call
from tests.guarded import (
    Dead,
    Overtaken,
    admitted,
    again,
    desk,
    engine_for,
    exits,
    guards,
    internal,
    left_sending,
    receipt,
    reconcile,
    recorded_bytes,
)
from tests.stores import LEASE, MIB, Died, Store

if TYPE_CHECKING:
    from engine.ports import Call, Database, Rows

pytestmark = pytest.mark.parametrize("blank", ["file"], indirect=True)


@dataclass
class Failing:
    """A catalog that fails as it ends the batch that holds the statement `name`; the batch went through or did not."""

    real: Database
    name: str
    went_through: bool

    def run(self, *calls: Call) -> list[Rows]:
        fails = self.name in [each.statement.name for each in calls]
        answer = self.real.run(*calls) if self.went_through or not fails else []
        if fails:
            raise StorageUnusable(place="execution.db", reason="disk I/O error")
        return answer

    def now(self) -> int:
        return self.real.now()


def dies(*_: object) -> None:
    raise Died


def over(store: Store, database: Database) -> Desk:
    return Desk(database, store.here.profile.admission)


def sends_nothing(store: Store, dead: Dead) -> None:
    with pytest.raises(ExecutionTransferBlocked):
        again(store, dead, window=None)


@pytest.mark.clause("run.callback-guard.manual", "run.callback-guard.evidence")
@pytest.mark.parametrize("value", [None, b"charged"])
def test_a_crash_between_an_entrys_mark_and_its_release_leaves_the_guard_and_is_healed_by_the_same_evidence(
    store: Store, value: bytes | None
) -> None:
    dead = left_sending(store, window=None)
    crashing = over(store, Overtaken(store.here.profile.database, "audit_guard", dies))

    with pytest.raises(Died):
        crashing.reconcile(dead.guard.token, evidence=receipt(dead.guard), operator="ops", value=value)
    stood = guards(store)
    sends_nothing(store, dead)
    reconcile(store, dead.guard, receipt(dead.guard), value=value)

    (entry,) = store.entries(dead.execution.execution_id)
    assert stood == [dead.guard]
    assert (entry.receipt, entry.value) == (receipt(dead.guard), value)
    assert guards(store) == []
    assert [audit.evidence for audit in desk(store).audits()] == [receipt(dead.guard)]


@pytest.mark.clause("run.callback-guard.evidence")
def test_a_crash_between_a_values_audit_row_and_its_record_leaves_the_step_waiting_for_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = left_sending(store, window=None)
    reconcile(store, dead.guard, receipt(dead.guard))
    journal: Any = store.here.profile.journal

    def supplies() -> None:
        value = recorded_bytes("charged")
        desk(store).supply(dead.guard.token, evidence=receipt(dead.guard), operator="ops", value=value)

    with monkeypatch.context() as crash:
        crash.setattr(journal, "put", dies)
        with pytest.raises(Died):
            supplies()
    supplies()

    assert again(store, dead, window=None) == ("charged", [])
    assert len(desk(store).audits()) == 3


@pytest.mark.clause("run.callback-guard.manual", "run.callback-guard.evidence")
@pytest.mark.parametrize("went_through", [True, False])
def test_a_batch_that_fails_leaves_the_evidence_exactly_where_its_audit_row_stands(
    store: Store, went_through: bool
) -> None:
    dead = left_sending(store, window=None)
    before = store.entries(dead.execution.execution_id)
    failing = over(store, Failing(store.here.profile.database, "audit_guard", went_through))

    with pytest.raises(StorageUnusable):
        failing.reconcile(dead.guard.token, evidence=receipt(dead.guard), operator="ops", value=b"charged")

    (entry,) = after = store.entries(dead.execution.execution_id)
    assert (entry.value, entry.receipt) == ((b"charged", receipt(dead.guard)) if went_through else (None, None))
    assert (after == before) is not went_through
    assert len(desk(store).audits()) == went_through


@pytest.mark.clause("run.callback-guard.evidence", "run.journal.blob-sweep")
def test_no_sweep_takes_a_large_value_of_which_the_audit_row_alone_says_that_it_counts(store: Store) -> None:
    dead, large = left_sending(store, window=None), b"x" * (MIB + 1)
    failing = over(store, Failing(store.here.profile.database, "audit_guard", went_through=True))
    with pytest.raises(StorageUnusable):
        failing.reconcile(dead.guard.token, evidence=receipt(dead.guard), operator="ops", value=large)

    swept = store.here.profile.journal.sweep(older_than=1 << 50)

    (entry,) = store.entries(dead.execution.execution_id)
    assert swept == []
    assert store.here.profile.journal.value(entry) == large


@pytest.mark.clause("run.callback-guard.manual")
def test_the_value_that_a_callback_recorded_before_it_died_is_not_said_to_be_the_operators(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_for(store, window=None, stalls=True)
    out = admitted(engine, internal(engine, "job:score"), window=None)
    (guard,) = guards(store)
    admission: Any = engine.profile.admission
    with monkeypatch.context() as crash:
        crash.setattr(admission, "_release", dies)
        with pytest.raises(Died):
            admission.record(out, b"charged")
    exits(store, engine)
    store.clock.advance(LEASE)

    with pytest.raises(GuardStepRecorded, match="leave --value out"):
        reconcile(store, guard, receipt(guard), value=b"other")
    stood = (guards(store), desk(store).audits())
    reconcile(store, guard, receipt(guard))

    (entry,) = store.entries(guard.execution_id)
    assert stood == ([guard], [])
    assert (entry.value, guards(store)) == (b"charged", [])


@pytest.mark.clause("run.callback-guard.manual")
def test_the_entry_of_a_guard_that_is_gone_is_not_touched(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = left_sending(store)
    admission: Any = store.here.profile.admission
    store.here.profile.database.run(call("release_guard", guard=dead.guard.token))
    monkeypatch.setattr(admission._journal, "put", dies)
    settling = admission.settling(dead.guard, evidence(receipt(dead.guard), token=dead.guard.token), None)

    with pytest.raises(Refused, match="released"):
        settling.__enter__()


@pytest.mark.clause("run.callback-guard.evidence")
def test_nobody_changes_an_entry_between_its_evidence_and_its_release(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = left_sending(store)
    profile = store.here.profile
    tree: Any = profile.admission
    waited: list[bool] = []

    def tries() -> None:
        with monkeypatch.context() as patience:
            patience.setattr(trees, "PATIENCE_S", 0.05)
            with pytest.raises(StorageBusy), tree._tree.changing(dead.guard.execution_id):
                pass
        waited.append(True)

    for name, does in (("release_guard", "reconcile"), ("audit_guard", "supply")):
        at = over(store, Overtaken(profile.database, name, tries))
        value = None if does == "reconcile" else recorded_bytes("charged")
        getattr(at, does)(dead.guard.token, evidence=receipt(dead.guard), operator="ops", value=value)

    assert waited == [True, True]
    assert profile.database.run(call("find_guard", token=dead.guard.token)) == [[]]
