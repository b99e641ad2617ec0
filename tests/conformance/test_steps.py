"""A step is claimed once, done, recorded once and replayed ever after."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest

from engine.errors import ExecutionSuperseded, StepFailed
from tests.stores import LEASE, Died, Effect, Store, died, key

if TYPE_CHECKING:
    from engine.execution.call import Call
    from tests.clocks import SettableClock


@pytest.mark.clause("run.journal.step-output")
def test_a_recorded_step_is_replayed_and_its_effect_left_alone(store: Store) -> None:
    charge = Effect({"receipt": 7})
    execution = store.open()

    first = execution.step("charge", charge, input={"order": 1})
    again = execution.step("charge", charge, input={"order": 1})

    assert first == again == {"receipt": 7}
    assert charge.calls == 1


@pytest.mark.clause("run.journal.step-output", "run.journal.idempotency-key")
def test_a_crash_between_effect_and_record_repeats_the_effect_under_the_same_key(store: Store) -> None:
    charge = Effect(lambda: (_ for _ in ()).throw(Died()))
    crashed = store.elsewhere()
    with pytest.raises(Died):
        crashed.step("charge", charge)
    store.clock.advance(LEASE)

    charge.answer = "receipt"
    value = store.open().step("charge", charge)

    assert value == "receipt"
    assert charge.calls == 2
    assert len(set(charge.keys)) == 1


@pytest.mark.clause("run.journal.step-output")
def test_a_value_that_stands_is_never_recorded_over(store: Store) -> None:
    held = store.held()
    journal = store.here.profile.journal
    journal.claim(key(held), attempt=held.attempt, token="first")
    journal.record(key(held), attempt=held.attempt, token="first", value=b"1")

    with pytest.raises(ExecutionSuperseded):
        journal.record(key(held), attempt=held.attempt, token="first", value=b"2")

    (entry,) = store.entries(held.attempt.execution_id)
    assert entry.value == b"1"


@pytest.mark.clause("run.journal.entry-key")
def test_label_and_input_together_name_a_step(store: Store) -> None:
    execution = store.open()
    labels = ["a", "a/b", "A", "..", "x" * 3000, "new\nline", "ключ", ""]

    for label in labels:
        for number in (1, "1", None, b"1"):
            execution.step(label, Effect(f"{label!r} {number!r}"), input=number)

    replayed = [execution.step(label, died, input=number) for label in labels for number in (1, "1", None, b"1")]
    assert replayed == [f"{label!r} {number!r}" for label in labels for number in (1, "1", None, b"1")]
    assert len(store.entries(execution.execution_id)) == len(labels) * 4


@pytest.mark.clause("run.journal.entry-key")
def test_concurrent_callers_of_one_key_run_one_effect_and_read_its_value(store: Store) -> None:
    execution = store.open()
    numbers = iter(range(100))
    begun = threading.Barrier(8)
    effect = Effect(lambda: next(numbers))

    def call(_: int) -> int:
        begun.wait(5)
        return int(execution.step("charge", effect))

    with store.clock.standing(), ThreadPoolExecutor(8) as pool:
        values = list(pool.map(call, range(8)))

    assert values == [0] * 8
    assert effect.calls == 1


@pytest.mark.clause("run.journal.entry-key")
def test_the_claim_stands_before_the_effect_runs(store: Store) -> None:
    execution = store.open()
    seen: list[tuple[str | None, bool]] = []

    def look(_: Call) -> None:
        seen.extend((entry.run_id, entry.recorded) for entry in store.entries(execution.execution_id))

    execution.step("look", look)

    assert seen == [(execution.run_id, False)]


@pytest.mark.clause("run.journal.entry-key")
def test_callers_over_two_connections_claim_a_key_once(store: Store) -> None:
    held = store.held()
    journals = [store.profile().journal for _ in range(4)]
    begun = threading.Barrier(4)

    def claim(number: int) -> str | None:
        begun.wait(5)
        return journals[number].claim(key(held), attempt=held.attempt, token=f"t{number}").claim

    with ThreadPoolExecutor(4) as pool:
        claims = set(pool.map(claim, range(4)))

    assert len(claims) == 1


@pytest.mark.clause("run.journal.claim-takeover")
def test_a_lapsed_owners_claim_is_taken_over(store: Store, clock: SettableClock) -> None:
    dead = store.held(engine=store.stalled())
    dead.steps.journal.claim(key(dead), attempt=dead.attempt, token="dead")
    clock.advance(LEASE)

    taker = store.held()
    entry = store.here.profile.journal.claim(key(taker), attempt=taker.attempt, token="taker")

    assert (entry.claim, entry.run_id) == ("taker", taker.attempt.run_id)


@pytest.mark.clause("run.journal.claim-takeover", "run.journal.current-owner")
def test_after_a_takeover_the_old_attempt_records_nothing(store: Store, clock: SettableClock) -> None:
    old = store.held(engine=store.stalled())
    journal = old.steps.journal
    journal.claim(key(old), attempt=old.attempt, token="old")
    clock.advance(LEASE)
    taker = store.held()
    store.here.profile.journal.claim(key(taker), attempt=taker.attempt, token="taker")

    with pytest.raises(ExecutionSuperseded) as refusal:
        journal.record(key(old), attempt=old.attempt, token="old", value=b"late")

    assert refusal.value.attempt == old.attempt.run_id
    store.here.profile.journal.record(key(taker), attempt=taker.attempt, token="taker", value=b"ours")
    (entry,) = store.entries(taker.attempt.execution_id)
    assert entry.value == b"ours"


@pytest.mark.clause("run.journal.claim-takeover")
def test_an_owner_taken_over_refuses_a_record_even_before_its_claim_is_taken(
    store: Store, clock: SettableClock
) -> None:
    old = store.held(engine=store.stalled())
    old.steps.journal.claim(key(old), attempt=old.attempt, token="old")
    clock.advance(LEASE)
    taker = store.held()

    with pytest.raises(ExecutionSuperseded):
        old.steps.journal.record(key(old), attempt=old.attempt, token="old", value=b"late")

    assert store.recorded(taker.attempt.execution_id) == []


@pytest.mark.clause("run.journal.claim-takeover")
def test_a_claim_stands_while_its_owners_lease_runs(store: Store, clock: SettableClock) -> None:
    held = store.held()
    journal = store.here.profile.journal
    journal.claim(key(held), attempt=held.attempt, token="first")
    clock.advance(LEASE - 1)

    entry = journal.claim(key(held), attempt=held.attempt, token="second")

    assert entry.claim == "first"


@pytest.mark.clause("run.journal.current-owner")
def test_a_superseded_attempt_dispatches_no_effect(store: Store, clock: SettableClock) -> None:
    stalled = store.elsewhere()
    clock.advance(LEASE)
    store.open()
    effect = Effect()

    with pytest.raises(ExecutionSuperseded):
        stalled.step("charge", effect)

    assert effect.calls == 0


@pytest.mark.clause("run.journal.current-owner")
def test_a_superseded_attempt_retires_nothing(store: Store, clock: SettableClock) -> None:
    stalled = store.elsewhere()
    stalled.step("one", Effect())
    clock.advance(LEASE)
    taker = store.open()

    with pytest.raises(ExecutionSuperseded):
        stalled.close()

    owner = store.owner()
    assert owner is not None
    assert owner.attempt == taker.run_id
    assert store.recorded(taker.execution_id) == ["one"]


@pytest.mark.clause("run.journal.idempotency-key")
def test_every_key_is_of_its_step_and_of_no_other(store: Store) -> None:
    effect = Effect()
    execution, other = store.open("a"), store.open("b")

    for number in range(5):
        for label in ("charge", "refund"):
            execution.step(label, effect, input=number)
            other.step(label, effect, input=number)

    assert len(set(effect.keys)) == 20


@pytest.mark.clause("run.journal.effect-boundary")
def test_a_body_whose_effects_are_steps_ends_alike_from_every_crash(store: Store, clock: SettableClock) -> None:
    outside: list[str] = []

    def once(name: str, _: Call) -> str:
        outside.append(name)
        return name

    def body(scope: str, *, stop_after: int) -> str:
        total = ""
        with store.elsewhere(scope) as execution:
            for number, name in enumerate("abcd"):
                if number == stop_after:
                    raise Died
                total += execution.step(name, partial(once, name))
        return total

    for stop_after in range(4):
        outside.clear()
        with pytest.raises(Died):
            body(f"scope-{stop_after}", stop_after=stop_after)
        clock.advance(LEASE)

        assert body(f"scope-{stop_after}", stop_after=9) == "abcd"
        assert outside == list("abcd")


def test_a_failed_step_leaves_its_entry_to_the_next_caller(store: Store) -> None:
    execution = store.open()
    with pytest.raises(StepFailed):
        execution.step("charge", Effect(lambda: 1 / 0))

    assert execution.step("charge", Effect("second try")) == "second try"
