"""What of a callback is recorded, and by whom."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import (
    ExecutionSuperseded,
    RateLimited,
    Transient,
    Waiting,
)
from engine.schedule import Schedule
from engine.shapes import FailureTag, RunStatus
from tests.guarded import (
    HOUR,
    TWICE,
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
from tests.stores import LEASE, Effect, Store, failing

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.execution.execution import Execution

UNCHANGED = Transient("no answer came")


def looks_on(store: Store, look: Callable[[float], None]) -> None:
    """Call `look` with the milliseconds of every wait before it begins."""
    wait = store.clock.wait

    def waiting(event: threading.Event, milliseconds: float) -> bool:
        look(milliseconds)
        return wait(event, milliseconds)

    store.clock.wait = waiting  # type: ignore[method-assign] # looks on while somebody waits


@pytest.mark.clause("run.journal.current-owner", "run.callback-guard.manual")
@pytest.mark.parametrize("taken", [True, False])
def test_a_late_answer_after_release_by_hand_is_recorded_by_nobody_superseded(store: Store, taken: bool) -> None:
    execution = store.open(engine=engine_for(store, window=None, stalls=True))

    def stalls() -> str:
        store.clock.advance(LEASE)
        (guard,) = guards(store)
        reconcile(store, guard, receipt(guard, "absent"))
        if taken:
            resumed = store.open(engine=engine_for(store, window=None))
            resumed.step("send", Effect("newer"), destination="vendor")
        return "late"

    with pytest.raises(ExecutionSuperseded):
        execution.step("send", Effect(stalls), destination="vendor")

    (entry,) = store.entries(execution.execution_id)
    assert entry.value == (recorded_bytes("newer") if taken else None)
    assert guards(store) == []


@pytest.mark.clause("run.journal.current-owner")
def test_a_superseded_attempt_enters_no_callback(store: Store) -> None:
    first = store.open(engine=engine_for(store, stalls=True))
    first.step("before", Effect())
    store.clock.advance(LEASE)
    second = store.open(engine=engine_for(store))
    effect = Effect()

    with pytest.raises(ExecutionSuperseded):
        first.step("send", effect, destination="vendor")

    assert effect.calls == 0
    assert guards(store) == []
    assert second.step("send", effect, destination="vendor") == "done"


@pytest.mark.clause("run.journal.current-owner")
def test_an_attempt_that_was_superseded_while_it_waited_for_its_retry_sends_nothing_more(store: Store) -> None:
    first = store.open(engine=engine_for(store, stalls=True))
    first.step("before", Effect())
    taken: list[Execution] = []

    def take(milliseconds: float) -> None:
        if milliseconds == 1_000 and not taken:
            store.clock.advance(LEASE)
            taken.append(store.open(engine=engine_for(store)))

    looks_on(store, take)
    effect = Effect(failing(UNCHANGED))
    with pytest.raises(ExecutionSuperseded):
        first.step("send", effect, schedule=TWICE, destination="vendor")

    assert effect.calls == 1
    assert guards(store) == []


@pytest.mark.clause("run.journal.entry-key", "run.callback-guard.acquire")
def test_a_caller_that_meets_a_sibling_waiting_for_its_retry_waits_for_its_value(store: Store) -> None:
    execution = store.open(engine=engine_for(store))
    effect = Effect(failing(RateLimited("slow down", wait_ms=60_000), answer="sent"))
    sibling: list[Any] = []
    asking: list[threading.Thread] = []

    def ask() -> None:
        sibling.append(execution.step("send", effect, destination="vendor"))

    def waits(milliseconds: float) -> None:
        if milliseconds > 1_000 and not asking:
            asking.append(threading.Thread(target=ask))
            asking[0].start()
            threading.Event().wait(0.1)

    looks_on(store, waits)
    with store.clock.standing():
        value = execution.step("send", effect, schedule=Schedule(attempts=3, jitter_ms=0), destination="vendor")
        asking[0].join(30)

    assert [value, *sibling] == ["sent", "sent"]
    assert effect.calls == 2


@pytest.mark.clause("run.callback-guard.acquire")
def test_a_sibling_that_returned_between_being_met_and_being_looked_for_blocks_nobody(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = store.open(engine=engine_for(store))
    out, may_return = threading.Event(), threading.Event()

    def holds() -> None:
        out.set()
        may_return.wait(30)

    first = threading.Thread(
        target=lambda: execution.step("first", Effect(holds), destination="vendor"),
    )
    looked = execution._room.callbacks.at_work

    def looks_late(token: str) -> bool:
        may_return.set()
        first.join(30)
        return looked(token)

    monkeypatch.setattr(execution._room.callbacks, "at_work", looks_late)
    first.start()
    out.wait(30)

    assert execution.step("second", Effect("sent"), destination="vendor") == "sent"


@pytest.mark.clause("run.retry.resume-at", "run.callback-guard.release")
@pytest.mark.parametrize("early", [True, False])
def test_a_resumed_retry_waits_for_its_instant_under_no_guard(store: Store, early: bool) -> None:
    engine = engine_for(store, stalls=True)
    first = store.open(engine=engine)
    effect = Effect(failing(RateLimited("slow down", wait_ms=HOUR // 2), answer="sent"))
    with pytest.raises(Waiting), first:
        first.step("send", effect, schedule=Schedule(attempts=3, jitter_ms=0), destination="vendor")
    store.clock.advance(HOUR // 2 - (60_000 if early else -1))
    seen: list[int] = []
    looks_on(store, lambda _: seen.append(len(guards(store))))

    value = store.open(engine=engine_for(store)).step("send", effect, destination="vendor")

    assert value == "sent"
    assert seen == [0]
    assert effect.calls == 2


@pytest.mark.clause("run.callback-guard.release", "run.journal.current-owner")
@pytest.mark.parametrize("how", ["closed", "parked"])
def test_what_comes_back_once_its_attempt_has_left_is_recorded_by_nobody_and_leaves_the_guard(
    store: Store, how: str
) -> None:
    engine = engine_for(store)
    held = internal(engine, "job:score")
    out = admitted(engine, held)
    if how == "closed":
        held.release(held.ended(RunStatus.FAILED))
    else:
        held.park(held.waiting(Waiting(step="other", due_at=store.clock.now() + HOUR)))

    with pytest.raises(ExecutionSuperseded):
        engine.profile.admission.record(out, recorded_bytes("charged"))

    assert [each.token for each in guards(store)] == [out.token]
    assert [entry.recorded for entry in store.entries(held.attempt.execution_id)] == [False]


@pytest.mark.clause("run.callback-guard.acquire")
def test_a_step_whose_claim_another_caller_has_by_its_next_try_is_not_sent_again(store: Store) -> None:
    execution = store.open(engine=engine_for(store))
    effect, journal = Effect(failing(RateLimited("slow"))), store.here.profile.journal

    def claims(milliseconds: float) -> None:
        (entry,) = store.entries(execution.execution_id)
        if milliseconds == 1_000 and entry.claim != "another":
            assert entry.claim is not None
            journal.park(entry.key, token=entry.claim)
            journal.claim(entry.key, attempt=execution._held.attempt, token="another")

    looks_on(store, claims)
    with pytest.raises(ExecutionSuperseded):
        execution.step("send", effect, schedule=TWICE, destination="vendor")

    assert effect.calls == 1
    assert guards(store) == []


@pytest.mark.clause("run.callback-guard.evidence")
def test_a_value_given_while_a_settled_step_waits_for_its_retry_is_what_it_returns(store: Store) -> None:
    dead = left_sending(store)
    reconcile(store, dead.guard, receipt(dead.guard))
    effect = Effect(failing(UNCHANGED))

    def supplies(milliseconds: float) -> None:
        if milliseconds == 1_000:
            given: dict[str, Any] = {
                "evidence": receipt(dead.guard),
                "operator": "ops",
                "value": recorded_bytes("charged"),
            }
            desk(store).supply(dead.guard.token, **given)

    looks_on(store, supplies)
    value = store.open(engine=engine_for(store)).step("send", effect, schedule=TWICE, destination="vendor")

    assert (value, effect.calls) == ("charged", 1)
    assert guards(store) == []


@pytest.mark.clause("run.callback-guard.release")
def test_every_tag_that_is_retried_is_retried_under_its_first_key(store: Store) -> None:
    execution = store.open(engine=engine_for(store))
    tags = frozenset({FailureTag.TRANSIENT, FailureTag.RATE_LIMITED})
    effect = Effect(failing(UNCHANGED, RateLimited("slow"), UNCHANGED))

    execution.step(
        "send", effect, schedule=Schedule(attempts=4, base_ms=1, jitter_ms=0, retry_on=tags), destination="vendor"
    )

    assert (effect.attempts, len(set(effect.keys))) == ([1, 2, 3, 4], 1)
