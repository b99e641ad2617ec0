"""What ends a retry: verdicts, bounds, an owner that is gone, and the schedule over all waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import errors
from engine.errors import ConnectorBoundHit, ExecutionSuperseded, Permanent, StepFailed, ValueUnsupported, Waiting
from engine.execution.execution import Execution
from engine.schedule import Schedule
from engine.shapes import RunStatus
from tests.stores import LEASE, Died, Effect, failing
from tests.waits import AWAY, EXACT, HOUR, throttled

if TYPE_CHECKING:
    from engine.execution.call import Call
    from tests.clocks import SettableClock
    from tests.stores import Store


@pytest.mark.clause("run.retry.deterministic-verdict")
def test_a_refusal_of_static_input_claims_nothing_and_spends_no_attempt(store: Store, clock: SettableClock) -> None:
    execution = store.open()
    effect = Effect()

    for _ in range(9):
        with pytest.raises(ValueUnsupported):
            execution.step("ask", effect, input=object(), schedule=EXACT)
        with pytest.raises(errors.DestinationUnknown):
            execution.step("ask", effect, destination="nowhere", schedule=EXACT)

    assert (effect.calls, store.entries(execution.execution_id), clock.waits) == (0, [], [])
    assert effect.attempts == []


@pytest.mark.clause("run.retry.deterministic-verdict")
@pytest.mark.parametrize(
    "refusal", [Permanent("never"), errors.Config("declaration"), errors.SchemaIncompatible("types")]
)
def test_a_verdict_that_will_not_change_is_given_once_and_leaves_the_budget_whole(
    store: Store, clock: SettableClock, refusal: Exception
) -> None:
    execution = store.open()

    with pytest.raises(StepFailed):
        execution.step("ask", Effect(failing(refusal)), schedule=EXACT)

    (entry,) = store.entries(execution.execution_id)
    assert (entry.attempts, entry.claim, clock.waits) == (0, None, [])


@pytest.mark.clause("run.retry.no-compensation")
def test_undoing_is_a_step_its_author_writes_and_replays_like_any_other(store: Store) -> None:
    offered = {name for name in dir(Execution) if not name.startswith("_")}
    undo = Effect("canceled")
    execution = store.elsewhere()

    for resumed in (execution, execution):
        resumed.step("book", Effect("room 7"))
        with pytest.raises(StepFailed):
            resumed.step("pay", Effect(failing(Permanent("declined"))))
        assert resumed.step("cancel the booking", undo, input="room 7") == "canceled"

    assert undo.calls == 1
    assert not {name for name in offered if any(word in name for word in ("compens", "undo", "rollback", "saga"))}


@pytest.mark.clause("run.retry.bound-hit-recorded", "run.retry.bound-hit-is-transient", "run.record.columns")
def test_a_bound_that_was_struck_is_on_the_row_though_a_later_attempt_recovered(
    store: Store, clock: SettableClock
) -> None:
    memory = ConnectorBoundHit(place="page 3", bound="linear-memory", limit="64 MiB")
    deadline = ConnectorBoundHit(place="page 3", bound="call-deadline", limit="30 s")
    execution = store.elsewhere()
    with pytest.raises(Waiting), execution:
        execution.step("ask", Effect(failing(memory, AWAY, throttled())), schedule=EXACT)
    clock.advance(HOUR)

    with store.elsewhere() as resumed:
        resumed.step("ask", Effect(), schedule=EXACT)
        resumed.step("next", Effect(failing(deadline)), schedule=EXACT)

    row = store.run(execution.run_id)
    assert row.status is RunStatus.SUCCESS
    assert list(row.bound_hits) == [
        {"step": "ask", "attempt": 1, "bound": "linear-memory"},
        {"step": "next", "attempt": 1, "bound": "call-deadline"},
    ]


@pytest.mark.clause("run.retry.bound-hit-recorded")
def test_a_bound_that_was_struck_outlives_a_crash(store: Store, clock: SettableClock) -> None:
    execution = store.elsewhere()
    hit = ConnectorBoundHit(place="page 3", bound="call-deadline", limit="30 s")
    clock.interrupt(Died())
    with pytest.raises(Died):
        execution.step("ask", Effect(failing(hit)), schedule=EXACT)
    clock.advance(LEASE)

    store.engine()

    row = store.run(execution.run_id)
    assert row.status is RunStatus.PARTIAL_FAILURE
    assert list(row.bound_hits) == [{"step": "ask", "attempt": 1, "bound": "call-deadline"}]


@pytest.mark.clause("run.retry.waiting-state", "run.retry.wake")
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    failures=st.lists(
        st.sampled_from([AWAY, "throttle", "long throttle", "crash", Permanent("never"), None]), max_size=6
    )
)
def test_whatever_is_parked_has_a_waker(store: Store, failures: list[Any]) -> None:
    clock, scope = store.clock, f"job-{store.here.chance.token()}"
    made = {"throttle": throttled(5_000), "long throttle": throttled(), "crash": Died()}
    try:
        with store.elsewhere(scope) as execution:
            for number, failure in enumerate(failures):
                execution.step(str(number), Effect(failing(made.get(failure, failure))), schedule=EXACT)
    except (Waiting, StepFailed, Died):
        pass

    owner = store.owner(scope)
    if owner is not None:
        woken_by_instant = owner.wake_at is not None
        free = owner.attempt is None
        leased = owner.lease_until > clock.now()
        assert [woken_by_instant, free, leased].count(True) == 1
        clock.advance(max(owner.wake_at or 0, owner.lease_until, clock.now()) - clock.now())
        store.elsewhere(scope).close()
    assert store.owner(scope) is None


@pytest.mark.clause("run.journal.current-owner", "run.retry.not-before")
def test_a_retry_whose_owner_is_retired_ends_at_once(store: Store, clock: SettableClock) -> None:
    effect = Effect(failing(*[AWAY] * 99))

    def retired(*_: Any) -> None:
        clock.advance(LEASE)
        owner = store.owner()
        assert owner is not None
        store.here.owners.withdraw(owner)

    engine = store.engine(noticed=retired)
    engine.keeper._clock = type(clock)(clock.now())
    execution = store.open(engine=engine)

    with pytest.raises(ExecutionSuperseded):
        execution.step("ask", effect, schedule=Schedule(attempts=99, base_ms=1_000, factor=1.0, jitter_ms=0))

    assert effect.calls == 1
    assert store.entries(execution.execution_id) == []


@pytest.mark.clause("run.retry.resume-at", "run.retry.schedule")
def test_an_owner_that_is_opened_again_and_again_within_a_second_storms_nobody(
    store: Store, clock: SettableClock
) -> None:
    effect = Effect(failing(*[throttled()] * 99))
    begun = clock.now()

    for _ in range(21):
        execution = store.elsewhere()
        with pytest.raises(Waiting), execution:
            execution.step("ask", effect)
        clock.advance(45)

    assert clock.now() - begun < 1_000
    assert effect.attempts == [1]


@pytest.mark.clause("run.retry.default-policy")
def test_a_schedule_of_the_default_kind_tries_no_vendor_five_times_in_a_second(
    store: Store, clock: SettableClock
) -> None:
    at: list[int] = []

    def away(_: Call) -> None:
        at.append(clock.now())
        raise AWAY

    with pytest.raises(StepFailed):
        store.open().step("ask", away)

    assert len(at) == 5
    assert at[-1] - at[0] >= 1_000


@pytest.mark.clause("run.retry.single-attempt", "run.suspend.awakeable")
def test_a_single_attempt_behind_an_outside_answer_fails_and_hangs_nowhere(store: Store) -> None:
    execution = store.open()
    tokens: list[str] = []

    def resolved(token: str) -> None:
        tokens.append(token)
        store.here.profile.awakeables.resolve(token, b'"yes"', at=store.clock.now())

    assert execution.wait("approval", ttl_ms=HOUR, announce=resolved) == "yes"
    with pytest.raises(StepFailed):
        execution.step("ask", Effect(failing(throttled())), schedule=Schedule(attempts=1))

    assert len(tokens) == 1
