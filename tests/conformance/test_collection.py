"""What is recorded goes with its owner, and comes back for nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import AwakeableUnknown, ExecutionSuperseded
from engine.history import History
from engine.shapes import Awakeable
from tests.stores import LEASE, Effect, Store, key

if TYPE_CHECKING:
    from tests.clocks import SettableClock


def waiting(execution_id: str, token: str = "token") -> Awakeable:
    return Awakeable(token, execution_id, "answer", created_at=0, deadline=1 << 50)


@pytest.mark.clause("run.journal.collection", "run.own.retirement")
def test_retiring_an_owner_deletes_its_journal_and_no_others(store: Store) -> None:
    done, other = store.open("done"), store.open("other")
    for execution in (done, other):
        execution.step("one", Effect())
        execution.step("two", Effect())

    done.close()

    assert store.entries(done.execution_id) == []
    assert store.recorded(other.execution_id) == ["one", "two"]


@pytest.mark.clause("run.journal.collection")
def test_a_refused_retirement_deletes_nothing(store: Store, clock: SettableClock) -> None:
    stalled = store.elsewhere()
    stalled.step("one", Effect())
    clock.advance(LEASE)
    taker = store.open()

    with pytest.raises(ExecutionSuperseded):
        stalled.close()
    store.open("another scope")

    assert store.recorded(taker.execution_id) == ["one"]


@pytest.mark.clause("run.journal.collection")
def test_a_crash_right_after_the_retirement_leaves_nothing_behind_the_next_open(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = store.open()
    execution.step("one", Effect())
    journal = store.here.profile.journal

    def crash(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(journal, "collect", crash)
    with pytest.raises(KeyboardInterrupt):
        execution.close()
    store.elsewhere()

    assert store.owner() is not None
    assert store.entries(execution.execution_id) == []


@pytest.mark.clause("run.journal.collection")
def test_collecting_twice_is_harmless(store: Store) -> None:
    execution = store.open()
    execution.step("one", Effect())
    execution.close()

    store.here.profile.journal.collect(execution.execution_id)
    store.here.profile.journal.recollect()

    assert store.entries(execution.execution_id) == []


@pytest.mark.clause("run.journal.collection")
def test_waits_go_with_their_execution(store: Store) -> None:
    execution = store.open()
    execution.step("one", Effect())
    store.here.profile.awakeables.mint(waiting(execution.execution_id))

    execution.close()

    with pytest.raises(AwakeableUnknown):
        store.here.profile.awakeables.read("token")


@pytest.mark.clause("run.journal.collection")
def test_no_late_claim_revives_a_retired_execution(store: Store, clock: SettableClock) -> None:
    stalled = store.held(engine=store.stalled())
    clock.advance(LEASE)
    store.open().close()

    with pytest.raises(ExecutionSuperseded):
        stalled.steps.journal.claim(key(stalled), attempt=stalled.attempt, token="late")

    assert store.entries(stalled.attempt.execution_id) == []


@pytest.mark.clause("run.journal.machine-state")
def test_a_catalog_rebuild_changes_no_recorded_work(store: Store) -> None:
    execution = store.open()
    execution.step("one", Effect())
    store.here.profile.awakeables.mint(waiting(execution.execution_id))
    before = (store.entries(execution.execution_id), store.owner(), store.here.profile.awakeables.read("token"))

    History(store.here.profile.objects).rebuild(store.here.runs)

    after = (store.entries(execution.execution_id), store.owner(), store.here.profile.awakeables.read("token"))
    assert after == before


@pytest.mark.clause("run.journal.current-owner", "run.journal.collection")
def test_a_checkpoint_of_an_attempt_that_was_taken_over_collects_nothing(store: Store, clock: SettableClock) -> None:
    stalled = store.held(engine=store.stalled())
    pull, journal = key(stalled, "pull:0"), stalled.steps.journal
    journal.claim(pull, attempt=stalled.attempt, token="t")
    journal.record(pull, attempt=stalled.attempt, token="t", value=b"1")
    clock.advance(LEASE)
    taker = store.held()

    with pytest.raises(ExecutionSuperseded):
        store.here.owners.checkpoint(stalled.attempt, landed=1, also=())
    assert store.recorded(taker.attempt.execution_id) == ["pull:0"]

    store.here.owners.checkpoint(taker.attempt, landed=1, also=())
    assert store.recorded(taker.attempt.execution_id) == []
