"""Large values of callbacks: kept with the release, or what stands where they cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import ExecutionSuperseded, ExecutionTransferBlocked, Refused, StepFailed, StorageUnusable
from engine.guards.admission import SqlAdmission
from engine.guards.desk import Desk
from engine.guards.rules import Mark
from engine.journal import SqlJournal
from engine.shapes import INLINE_LIMIT
from engine.sql import call
from tests.guarded import (
    ONCE,
    TWICE,
    Overtaken,
    admitted,
    desk,
    engine_for,
    guards,
    internal,
    left_sending,
    receipt,
    reconcile,
    recorded_bytes,
)
from tests.stores import Effect, Store

if TYPE_CHECKING:
    from engine.execution.execution import Execution

LARGE = "x" * INLINE_LIMIT


def breaks_blobs(execution: Execution, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no blob be kept: the disk is full, or the bucket is away."""

    def full(_: bytes) -> None:
        raise StorageUnusable(place="blobs", reason="no space left on device")

    monkeypatch.setattr(execution._room.journal._blobs, "put", full)  # type: ignore[attr-defined] # the profile's own


@pytest.mark.clause("run.callback-guard.release")
def test_while_the_window_covers_a_value_that_cannot_be_kept_lets_the_guard_go_and_its_key_is_sent_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = store.open(engine=engine_for(store))
    effect = Effect(LARGE)
    with monkeypatch.context() as broken:
        breaks_blobs(execution, broken)
        with pytest.raises((StepFailed, StorageUnusable)):
            execution.step("send", effect, schedule=ONCE, destination="vendor")
    between = (guards(store), [entry.doubts for entry in store.entries(execution.execution_id)])

    value = execution.step("send", effect, destination="vendor")

    assert between == ([], [1])
    assert value == LARGE
    assert len(effect.keys) == 2
    assert len(set(effect.keys)) == 1


@pytest.mark.clause("run.callback-guard.release", "run.callback-guard.evidence")
def test_without_a_window_a_value_that_cannot_be_kept_leaves_the_guard_for_a_receipt_and_the_value(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = store.open(engine=engine_for(store, window=None, stalls=True))
    effect = Effect(LARGE)
    with monkeypatch.context() as broken:
        breaks_blobs(execution, broken)
        with pytest.raises(ExecutionTransferBlocked), execution:
            execution.step("send", effect, schedule=TWICE, destination="vendor")
    (guard,) = guards(store)
    assert not execution._room.callbacks.at_work(guard.token), "nobody waits for its return"

    reconcile(store, guard, receipt(guard), value=recorded_bytes(LARGE))

    assert effect.calls == 1
    assert store.open(engine=engine_for(store, window=None)).step("send", effect, destination="vendor") == LARGE
    assert effect.calls == 1


@pytest.mark.clause("run.journal.blob-sweep", "run.callback-guard.release")
@pytest.mark.parametrize("blank", ["sqlite"], indirect=True)
def test_a_value_that_a_sweep_takes_away_before_its_record_is_kept_once_more(store: Store) -> None:
    engine = engine_for(store)
    held, journal = internal(engine, "job:score"), engine.profile.journal
    assert isinstance(journal, SqlJournal)
    swept: list[str] = []

    def sweeps() -> None:
        swept.extend(journal.sweep(older_than=store.clock.now() + 1))

    engine.profile.admission.record(admitted(engine, held, step="before"), recorded_bytes(f"{LARGE} that is kept"))
    out, value = admitted(engine, held), recorded_bytes(LARGE)
    SqlAdmission(Overtaken(engine.profile.database, "record_entry", sweeps), journal).record(out, value)

    _, entry = store.entries(held.attempt.execution_id)
    assert entry.blob is not None
    assert swept == [entry.blob.sha256]
    assert journal.value(entry) == value
    assert guards(store) == []


@pytest.mark.clause("run.journal.blob-sweep", "run.callback-guard.release")
@pytest.mark.parametrize("blank", ["sqlite"], indirect=True)
def test_no_guard_is_released_for_a_value_whose_blob_is_doomed(store: Store) -> None:
    engine, database = engine_for(store), store.here.profile.database
    out = admitted(engine, internal(engine, "job:score"))
    journal = engine.profile.journal
    assert isinstance(journal, SqlJournal)
    placed = journal.place(recorded_bytes(LARGE))
    named = {**out.asked.entry, **out.asked.active, "claim": out.asked.claim, "guard": out.token}
    database.run(call("require_recordable", **named, digest=placed["digest"]))

    database.run(call("doom_blobs", older_than=store.clock.now() + 1, portion=1))

    with pytest.raises(Refused, match="superseded"):
        database.run(call("require_recordable", **named, digest=placed["digest"]))


@pytest.mark.clause("run.journal.blob-sweep", "run.callback-guard.evidence")
@pytest.mark.parametrize("blank", ["sqlite"], indirect=True)
@pytest.mark.parametrize("later", [False, True])
def test_a_value_given_by_hand_that_a_sweep_takes_away_is_kept_once_more(store: Store, later: bool) -> None:
    dead, profile = left_sending(store), store.here.profile
    given, value = receipt(dead.guard), recorded_bytes(LARGE)
    if later:
        reconcile(store, dead.guard, given)
    swept: list[str] = []

    def sweeps() -> None:
        swept.extend(profile.journal.sweep(older_than=store.clock.now() + 1))

    overtaken = Desk(Overtaken(profile.database, "settle_entry", sweeps), profile.admission)
    does = overtaken.supply if later else overtaken.reconcile
    does(dead.guard.token, evidence=given, operator="ops", value=value)

    (entry,) = store.entries(dead.execution.execution_id)
    assert entry.blob is not None
    assert swept == [entry.blob.sha256]
    assert profile.journal.value(entry) == value
    assert len(desk(store).audits()) == 1 + later


@pytest.mark.clause("run.callback-guard.release")
def test_no_guard_is_released_for_a_value_that_another_claim_keeps_from_being_recorded(store: Store) -> None:
    engine = engine_for(store)
    out = admitted(engine, internal(engine, "job:score"))
    engine.profile.journal.park(out.asked.key, token=out.asked.claim)

    with pytest.raises(ExecutionSuperseded):
        engine.profile.admission.record(out, recorded_bytes("charged"))

    assert [each.token for each in guards(store)] == [out.token]


@pytest.mark.clause("run.callback-guard.release")
@pytest.mark.parametrize("blank", ["sqlite"], indirect=True)
def test_a_value_whose_guard_was_taken_away_is_recorded_by_nobody_however_large(store: Store) -> None:
    engine = engine_for(store)
    out = admitted(engine, internal(engine, "job:score"))
    engine.profile.admission.settle(out, Mark.STAYS)

    with pytest.raises(ExecutionSuperseded):
        engine.profile.admission.record(out, recorded_bytes(LARGE))


@pytest.mark.clause("run.journal.inline-cutoff", "run.callback-guard.release")
def test_a_value_past_the_cutoff_is_recorded_with_the_release(store: Store) -> None:
    execution = store.open(engine=engine_for(store))

    assert execution.step("send", Effect(LARGE), destination="vendor") == LARGE

    (entry,) = store.entries(execution.execution_id)
    assert entry.blob is not None
    assert guards(store) == []
    assert execution.step("send", Effect("other"), destination="vendor") == LARGE
