"""A step that called its destination and names it no longer: what is in doubt, or settled, binds it all the same."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from engine.errors import (
    EffectSettled,
    EffectUnsettled,
    ExecutionTransferBlocked,
    RateLimited,
    StepFailed,
    StorageBindingUnavailable,
    Transient,
)
from engine.sql import call
from tests.destinations import HANG_UP, Vendor
from tests.guarded import HOUR, ONCE, TWICE, engine_for, guards, left_sending, receipt, reconcile, vendor
from tests.stores import LEASE, Effect, Store, failing, key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.execution.execution import Execution
    from engine.execution.held import Held
    from engine.host import Engine
    from tests.clocks import SettableClock

AWAY = Transient("no answer came")


@pytest.fixture
def charges(clock: SettableClock) -> Iterator[Vendor]:
    """A destination that executes the first request it gets, and never answers it."""
    with Vendor(clock.now, window=HOUR, script=[HANG_UP]).serving() as vendor:
        yield vendor


def unanswered(store: Store, charges: Vendor) -> Execution:
    """An attempt whose step `send` got no answer from its destination, and ended; the next one."""
    with pytest.raises(StepFailed), store.open(engine=engine_for(store)) as first:
        first.step("send", charges.send, schedule=ONCE, destination="vendor")
    return store.open(engine=engine_for(store))


def in_doubt(store: Store) -> Held:
    """An attempt whose step `one` got no answer from its destination; it goes on."""
    held = store.held()
    with pytest.raises(StepFailed):
        held.steps.run(key(held), Effect(failing(AWAY)), schedule=ONCE, course=held.effects(vendor()))
    return held


@contextmanager
def unheard(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Cut the store's answer off when a guarded value is recorded in the block, so that its claim may still stand."""

    def lost(*_: object) -> None:
        raise StorageBindingUnavailable(place="here", reason="cut off", applied="unknown")

    with monkeypatch.context() as cut_off:
        cut_off.setattr(engine.profile.admission, "record", lost)
        with pytest.raises(StorageBindingUnavailable):
            yield


@pytest.mark.clause("run.callback-guard.window")
@pytest.mark.parametrize("passed", [0, HOUR - 1, HOUR, 2 * HOUR])
def test_what_went_unanswered_is_not_sent_again_without_its_destination(
    store: Store, charges: Vendor, passed: int
) -> None:
    again = unanswered(store, charges)
    before = store.entries(again.execution_id)
    store.clock.advance(passed)

    with pytest.raises(EffectUnsettled) as refusal:
        again.step("send", charges.send)

    assert len(charges.received) == 1
    assert store.entries(again.execution_id) == before
    assert refusal.value.idempotency_key == charges.received[0]
    assert "name vendor again" in str(refusal.value)
    assert f"run rewind {again.execution_id} --reason TEXT --force" in str(refusal.value)


@pytest.mark.clause("run.callback-guard.window")
def test_named_again_within_the_window_it_goes_on(store: Store, charges: Vendor) -> None:
    again = unanswered(store, charges)
    with pytest.raises(EffectUnsettled):
        again.step("send", charges.send)

    assert again.step("send", charges.send, destination="vendor") == {"status": 200}
    assert charges.executed == charges.received[:1]


@pytest.mark.clause("run.callback-guard.evidence")
@pytest.mark.parametrize("window", [None, HOUR])
def test_what_a_receipt_settled_is_not_sent_again_without_its_destination(
    store: Store, charges: Vendor, window: int | None
) -> None:
    dead = left_sending(store, window=window)
    reconcile(store, dead.guard, receipt(dead.guard))
    before = store.entries(dead.execution.execution_id)

    with pytest.raises(EffectSettled) as refusal, store.open(engine=engine_for(store)) as again:
        again.step("send", charges.send)

    assert charges.received == []
    assert store.entries(dead.execution.execution_id) == before
    assert refusal.value.receipt == receipt(dead.guard)
    assert "--value" in str(refusal.value)


@pytest.mark.clause("run.callback-guard.evidence")
def test_a_receipt_binds_it_with_no_other_admission_in_doubt(store: Store, charges: Vendor) -> None:
    settled = receipt(left_sending(store).guard)
    reconcile(store, guards(store)[0], settled)
    dead = left_sending(store)
    reconcile(store, dead.guard, receipt(dead.guard, "absent"))
    before = store.entries(dead.execution.execution_id)

    with pytest.raises(EffectSettled) as refusal, store.open(engine=engine_for(store)) as again:
        again.step("send", charges.send)

    assert [(entry.doubts, entry.receipt) for entry in before] == [(0, settled)]
    assert store.entries(dead.execution.execution_id) == before
    assert charges.received == []
    assert refusal.value.receipt == settled


@pytest.mark.clause("run.callback-guard.window", "run.journal.claim-takeover")
def test_the_claim_of_an_engine_that_died_sending_is_not_taken_over_without_its_destination(
    store: Store, charges: Vendor
) -> None:
    dead = left_sending(store)
    before = store.entries(dead.execution.execution_id)

    with pytest.raises(EffectUnsettled), store.open(engine=engine_for(store)) as again:
        again.step("send", charges.send)

    assert charges.received == []
    assert store.entries(dead.execution.execution_id) == before


@pytest.mark.clause("run.callback-guard.acquire", "run.callback-guard.window")
def test_while_its_guard_stands_it_is_not_sent_without_its_destination(store: Store, charges: Vendor) -> None:
    execution = store.open(engine=engine_for(store, window=None))
    with pytest.raises(ExecutionTransferBlocked):
        execution.step("send", charges.send, schedule=ONCE, destination="vendor")
    stood = guards(store)

    with pytest.raises(EffectUnsettled):
        execution.step("send", charges.send)

    assert len(charges.received) == 1
    assert guards(store) == stood


@pytest.mark.clause("run.callback-guard.window", "run.journal.claim-takeover")
def test_a_claim_that_a_lost_answer_left_is_not_gone_on_with_without_its_destination(
    store: Store, charges: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    charges.script.clear()
    engine = engine_for(store)
    execution = store.open(engine=engine)
    with unheard(engine, monkeypatch):
        execution.step("send", charges.send, schedule=ONCE, destination="vendor")

    for _ in range(2):
        with pytest.raises(EffectUnsettled):
            execution.step("send", charges.send)
    assert len(charges.received) == 1
    assert execution.step("send", charges.send, destination="vendor") == {"status": 200}


@pytest.mark.clause("run.callback-guard.window", "run.journal.ledger-settles-first")
@pytest.mark.parametrize("claimed", [False, True])
def test_a_refused_step_that_was_known_to_send_leaves_no_intent_open(
    store: Store, monkeypatch: pytest.MonkeyPatch, *, claimed: bool
) -> None:
    held = in_doubt(store)
    if claimed:
        with unheard(store.here, monkeypatch):
            held.steps.run(key(held), Effect(b"sent"), schedule=ONCE, course=held.effects(vendor()))
    effect = Effect(b"sent")

    with pytest.raises(EffectUnsettled):
        held.steps.run(key(held), effect, schedule=ONCE, sends=True)

    intents = store.here.profile.database.run(call("list_requests", execution_id=held.attempt.execution_id))[0]
    assert [sent for *_, sent in intents] == ["[]"]
    assert effect.calls == 0


@pytest.mark.clause("run.callback-guard.window")
def test_no_wait_is_noted_on_what_is_in_doubt(store: Store) -> None:
    held = in_doubt(store)
    before = store.entries(held.attempt.execution_id)

    with pytest.raises(EffectUnsettled):
        held.steps.note(key(held), attempts=0, due=None)

    assert store.entries(held.attempt.execution_id) == before


@pytest.mark.clause("run.journal.entry-key")
def test_a_sibling_that_is_still_calling_is_waited_for(store: Store) -> None:
    execution = store.open(engine=engine_for(store))
    beside = Effect("sent twice")
    siblings: list[Future[object]] = []

    with store.clock.standing(), ThreadPoolExecutor(1) as pool:

        def calling() -> str:
            waited = len(store.clock.waits)
            siblings.append(pool.submit(execution.step, "send", beside))
            while len(store.clock.waits) == waited and not siblings[0].done():
                time.sleep(0.001)
            return "sent"

        assert execution.step("send", Effect(calling), destination="vendor") == "sent"
        assert siblings[0].result() == "sent"

    assert beside.calls == 0


@pytest.mark.clause("run.callback-guard.window", "run.retry.retry-after")
def test_with_nothing_in_doubt_a_step_may_drop_its_destination(store: Store) -> None:
    execution = store.open(engine=engine_for(store))
    with pytest.raises(StepFailed):
        execution.step("send", Effect(failing(RateLimited("slow down"))), schedule=ONCE, destination="vendor")

    assert execution.step("send", Effect(failing(AWAY, answer="sent")), schedule=TWICE) == "sent"


@pytest.mark.clause("run.journal.claim-takeover")
def test_a_step_that_never_had_a_destination_is_claimed_tried_and_taken_over_as_ever(store: Store) -> None:
    effect = Effect(failing(AWAY, AWAY, answer="done"))
    first = store.elsewhere()
    with pytest.raises(StepFailed):
        first.step("plain", effect, schedule=ONCE)
    store.clock.advance(LEASE)

    assert store.open().step("plain", effect, schedule=TWICE) == "done"
    assert effect.calls == 3
