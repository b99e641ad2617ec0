"""What a guard left behind does to whoever comes next: it stays, or goes with the takeover that sends its key again."""

from __future__ import annotations

import pytest

from engine.errors import ExecutionLive, ExecutionPinMismatch, ExecutionTransferBlocked, RunIdUsed, Transient
from engine.guards.rules import EvidenceClass, Kind
from engine.shapes import FailureTag, RunStatus
from engine.sql import call
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
    standing,
)
from tests.stores import LEASE, Effect, Store


def blocked(store: Store, scope: str = "job") -> ExecutionTransferBlocked:
    with pytest.raises(ExecutionTransferBlocked) as refusal:
        store.open(scope, engine=engine_for(store))
    return refusal.value


@pytest.mark.clause("run.callback-guard.holder-gone", "run.callback-guard.replay", "run.journal.d1-guard")
def test_a_lapsed_lease_alone_frees_nothing(store: Store) -> None:
    dead = died_sending(store)
    store.clock.advance(LEASE + 1)

    refusal = blocked(store)

    assert refusal.token == dead.guard.token
    assert guards(store) == [dead.guard]


@pytest.mark.clause("run.callback-guard.replay", "run.journal.d1-guard")
@pytest.mark.parametrize("window", [None, LEASE])
def test_a_gone_holders_guard_stays_for_manual_where_its_window_has_passed_or_is_none(
    store: Store, window: int | None
) -> None:
    dead = left_sending(store, window=window)

    refusal = blocked(store)

    assert (refusal.token, refusal.evidence_class) == (dead.guard.token, "unknown")
    assert guards(store) == [dead.guard]


@pytest.mark.clause("run.callback-guard.replay", "run.journal.idempotency-key")
def test_while_the_window_of_a_gone_holder_covers_the_takeover_releases_and_sends_the_same_key(store: Store) -> None:
    dead = left_sending(store)
    taken = store.open(engine=engine_for(store))
    between = guards(store)
    effect = Effect("sent")

    value = taken.step("send", effect, destination="vendor")

    assert (value, effect.keys) == ("sent", dead.keys)
    assert between == guards(store) == []


@pytest.mark.clause("run.callback-guard.replay")
@pytest.mark.parametrize("moment", [LEASE - 1, LEASE, HOUR - 1, HOUR])
def test_a_replay_needs_the_lease_lapsed_and_the_window_running_to_the_millisecond(store: Store, moment: int) -> None:
    dead = died_sending(store, gone=True)
    store.clock.advance(moment)
    refusal: type[Exception] | None = None

    try:
        store.open(engine=engine_for(store))
    except (ExecutionLive, ExecutionTransferBlocked) as error:
        refusal = type(error)

    assert refusal is {LEASE - 1: ExecutionLive, HOUR: ExecutionTransferBlocked}.get(moment)
    assert guards(store) == ([] if refusal is None else [dead.guard])


@pytest.mark.clause("run.callback-guard.replay")
@pytest.mark.parametrize("refused", ["other pins", "a used run id"])
def test_a_takeover_that_takes_nothing_releases_nothing(store: Store, refused: str) -> None:
    dead = left_sending(store)

    if refused == "other pins":
        with pytest.raises(ExecutionPinMismatch):
            store.open(plan="plan-b")
    else:
        with pytest.raises(RunIdUsed):
            store.open(run_id=dead.execution.run_id)

    assert guards(store) == [dead.guard]


@pytest.mark.clause("run.callback-guard.replay")
def test_takeover_of_the_job_releases_the_guard_of_its_item_whose_key_stays_in_doubt(store: Store) -> None:
    engine = store.stalled()
    item, job = internal(engine, "item:score:1"), internal(engine, "job:score")
    admitted(engine, item, above=(job,))
    exits(store, engine)
    store.clock.advance(LEASE)

    internal(store.here, "job:score")

    assert guards(store) == []
    assert [entry.doubts for entry in store.entries(item.attempt.execution_id)] == [1]


@pytest.mark.clause("run.callback-guard.container-stop")
def test_a_container_that_stops_unreaped_leaves_its_guard_to_evidence_once_the_lease_lapses(store: Store) -> None:
    dead = died_sending(store)
    with pytest.raises(ExecutionLive):
        store.open(engine=engine_for(store))
    store.clock.advance(LEASE)
    blocked(store)

    desk(store).reconcile(dead.guard.token, evidence=receipt(dead.guard, "absent"), operator="ops")

    assert guards(store) == []
    assert store.open(engine=engine_for(store)).resumed


@pytest.mark.clause("run.callback-guard.container-stop", "run.callback-guard.holder-gone")
def test_nothing_but_the_exit_that_is_written_says_that_a_holder_is_gone(store: Store) -> None:
    dead = died_sending(store)
    store.clock.advance(LEASE)
    for _ in range(3):
        store.engine().reap()
        blocked(store)
    before = standing(store)[0].holder_exited_at

    exits(store, dead.engine)

    assert before is None
    assert standing(store)[0].holder_exited_at == store.clock.now()
    assert store.open(engine=engine_for(store)).resumed


@pytest.mark.clause("run.callback-guard.holder-gone")
def test_an_engine_that_closes_writes_its_exit_and_one_inside_a_callback_does_not(store: Store) -> None:
    idle, busy = engine_for(store), engine_for(store)
    store.open("idle", engine=idle)
    execution = store.open("busy", engine=busy)
    exited: list[bool] = []

    execution.step("send", Effect(lambda: exited.append(busy.leases.exit())), destination="vendor")
    exited.append(idle.leases.exit())

    assert exited == [False, True]


@pytest.mark.clause("run.callback-guard.holder-gone")
def test_a_holder_that_a_guard_names_is_not_forgotten(store: Store) -> None:
    dead = died_sending(store, gone=True)
    database = store.here.profile.database
    dead.execution._held._room.owners.release(dead.execution._held.attempt, run=dead.execution._held.run)

    store.clock.advance(10 * HOUR)
    database.run(call("forget_holders", keep_ms=HOUR))

    assert standing(store)[0].holder_exited_at is not None


@pytest.mark.clause("run.callback-guard.blocked")
@pytest.mark.parametrize("covered", [True, False])
def test_a_blocked_transfer_is_retryable_and_names_what_releases_its_guard(store: Store, covered: bool) -> None:
    dead = died_sending(store, window=HOUR if covered else None)
    store.clock.advance(LEASE)

    refusal = blocked(store)

    assert (refusal.tag, refusal.exit_code) == (FailureTag.TRANSIENT, 75)
    assert dead.guard.token in str(refusal)
    assert refusal.evidence_class == ("replay-safe" if covered else "unknown")
    assert refusal.evidence_class in str(refusal)
    assert ("reconcile-guard" in str(refusal)) is not covered


@pytest.mark.clause("run.callback-guard.blocked")
def test_an_attempt_that_a_guard_refused_is_on_record_as_failed(store: Store) -> None:
    left_sending(store, window=None)

    with pytest.raises(ExecutionTransferBlocked):
        store.open(engine=engine_for(store), run_id="refused")

    row = store.run("refused")
    assert row.status is RunStatus.FAILED
    assert (row.error or {})["tag"] == "Transient"


@pytest.mark.clause("run.callback-guard.class")
@pytest.mark.parametrize(
    ("window", "kind", "found"),
    [
        (HOUR, Kind.EFFECT, EvidenceClass.REPLAY_SAFE),
        (HOUR, Kind.PUBLICATION, EvidenceClass.REPLAY_SAFE),
        (1, Kind.EFFECT, EvidenceClass.UNKNOWN),
        (1, Kind.PUBLICATION, EvidenceClass.RECEIPT_REQUIRED),
        (None, Kind.EFFECT, EvidenceClass.UNKNOWN),
        (None, Kind.PUBLICATION, EvidenceClass.RECEIPT_REQUIRED),
    ],
)
def test_the_class_of_evidence_follows_window_and_kind(
    store: Store, window: int | None, kind: Kind, found: EvidenceClass
) -> None:
    admitted(store.here, internal(store.here, "export:orders"), window=window, kind=kind)
    store.clock.advance(1)

    assert [each.evidence_class for each in standing(store)] == [found]


@pytest.mark.clause("run.callback-guard.replay")
def test_an_attempt_that_waits_is_not_woken_over_its_guard(store: Store) -> None:
    held = internal(store.here, "job:score")
    guard = admitted(store.here, held, window=None)
    row = held.run.waiting(store.clock.now() + 1, failure=Transient("the vendor is away"))
    store.here.owners.park(held.attempt, run=row, wake_at=store.clock.now() + 1)
    store.clock.advance(LEASE)

    with pytest.raises(ExecutionTransferBlocked) as refusal:
        internal(store.engine(), "job:score")

    assert refusal.value.token == guard.token
    assert store.run(held.attempt.run_id).status is RunStatus.WAITING
