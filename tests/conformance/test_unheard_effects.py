"""A first effect that may have acted unheard: nothing is recorded, and its execution is kept with its key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import Permanent, StepFailed, StorageUnusable, Transient
from tests.destinations import HANG_UP, Vendor
from tests.guarded import ONCE, TWICE, engine_for
from tests.stores import Effect, Store, failing

if TYPE_CHECKING:
    from engine.execution.call import Call
    from tests.clocks import SettableClock


@pytest.mark.clause("run.journal.idempotency-key")
@pytest.mark.parametrize("act", [503, HANG_UP])
def test_a_request_that_went_unanswered_goes_out_under_the_same_key_when_the_scope_is_opened_again(
    store: Store, clock: SettableClock, act: int | str
) -> None:
    def charge(call: Call) -> int:
        answer = call.http.post(vendor.url)
        answer.raise_for_status()
        return answer.status_code

    with Vendor(clock.now, window=3_600_000).serving() as vendor:
        vendor.script = [act]
        with pytest.raises(StepFailed), store.open() as first:
            first.step("charge", charge, schedule=ONCE)
        with store.open() as second:
            second.step("charge", charge, schedule=ONCE)

        assert second.execution_id == first.execution_id
        assert len(vendor.received) == 2
        assert len(set(vendor.received)) == 1


@pytest.mark.clause("run.journal.idempotency-key")
def test_an_effect_whose_record_the_store_refuses_keeps_its_key(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise StorageUnusable(place="here", reason="no space left on device")

    effect = Effect("paid")
    with monkeypatch.context() as disk:
        disk.setattr(store.here.profile.journal, "record", full)
        with pytest.raises(StepFailed), store.open() as first:
            first.step("charge", effect, schedule=ONCE)
    with store.open() as second:
        second.step("charge", effect, schedule=ONCE)

    assert effect.keys == effect.keys[:1] * 2


@pytest.mark.clause("run.own.pin-release")
def test_a_first_effect_that_failed_for_certain_lets_its_execution_go(store: Store) -> None:
    with pytest.raises(StepFailed), store.open() as execution:
        execution.step("charge", Effect(failing(Permanent("no"))), schedule=ONCE)

    assert store.owner() is None


@pytest.mark.clause("run.journal.idempotency-key", "run.callback-guard.window")
def test_a_refusal_after_a_call_that_went_unanswered_keeps_the_execution_and_its_key(store: Store) -> None:
    effect = Effect(failing(Transient("away"), Permanent("no")))
    with pytest.raises(StepFailed), store.open(engine=engine_for(store)) as first:
        first.step("send", effect, schedule=TWICE, destination="vendor")

    with store.open(engine=engine_for(store)) as second:
        second.step("send", effect, schedule=ONCE, destination="vendor")

    assert second.execution_id == first.execution_id
    assert effect.keys == effect.keys[:1] * 3
