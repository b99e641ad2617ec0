"""A wait too long to sleep through: the attempt closes, keeps its owner, and goes on as itself at its instant."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine import errors
from engine.errors import (
    NOT_NOW,
    ConnectorBoundHit,
    ExecutionLive,
    ExecutionRewindUnsafe,
    ExecutionSuperseded,
    JoinFailed,
    Permanent,
    RateLimited,
    StepFailed,
    Transient,
    ValueUnsupported,
    Waiting,
)
from engine.execution.execution import Execution
from engine.execution.steps import LONGEST_SLEEP_MS
from engine.history import History
from engine.rewind import rewind
from engine.shapes import RunStatus, Schedule
from tests.stores import LEASE, Died, Effect, Store, died, failing

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.execution.call import Call
    from tests.clocks import SettableClock

HOUR = 3_600_000
AWAY = Transient("the vendor is away")
EXACT = Schedule(attempts=4, base_ms=1_000, jitter_ms=0)


def throttled(wait_ms: int = HOUR) -> RateLimited:
    return RateLimited("slow down", wait_ms=wait_ms)


def parked(store: Store, *failures: Exception, scope: str = "job", schedule: Schedule = EXACT) -> Execution:
    """An attempt that recorded one step and then met `failures`, the last of which asks it to wait for long."""
    execution = store.elsewhere(scope)
    execution.step("before", Effect())
    with pytest.raises(Waiting), execution:
        execution.step("ask", Effect(failing(*(failures or (throttled(),)))), schedule=schedule)
    return execution


@pytest.mark.clause("run.retry.retry-after")
@pytest.mark.parametrize("wait_ms", [1, 30_001, LONGEST_SLEEP_MS])
def test_a_wait_of_five_minutes_or_less_is_slept_whatever_the_schedule_says(
    store: Store, clock: SettableClock, wait_ms: int
) -> None:
    effect = Effect(failing(throttled(wait_ms)))

    assert store.open().step("ask", effect, schedule=EXACT) == "done"

    assert clock.waits == [wait_ms]
    assert LONGEST_SLEEP_MS == 300_000


@pytest.mark.clause("run.retry.retry-after", "run.retry.waiting-state")
def test_a_longer_wait_closes_the_attempt_instead_of_sleeping(store: Store, clock: SettableClock) -> None:
    execution = store.elsewhere()
    due = clock.now() + LONGEST_SLEEP_MS + 1

    with pytest.raises(Waiting) as wait, execution:
        execution.step("ask", Effect(failing(throttled(LONGEST_SLEEP_MS + 1))))

    assert clock.waits == []
    assert (wait.value.step, wait.value.due_at, wait.value.exit_code) == ("ask", due, NOT_NOW)
    row = store.run(execution.run_id)
    assert (row.status, row.next_attempt_at, row.ended_at) == (RunStatus.WAITING, due, None)
    assert row.error is not None
    assert row.error["tag"] == "RateLimited"


@pytest.mark.clause("run.retry.waiting-state")
def test_an_attempt_that_waits_keeps_its_owner_and_its_record_and_is_no_orphan(
    store: Store, clock: SettableClock
) -> None:
    execution = parked(store)
    clock.advance(10 * LEASE)

    assert store.engine().reap() == []

    owner = store.owner()
    assert owner is not None
    assert (owner.attempt, owner.lease_until, owner.holder) == (execution.run_id, 0, None)
    assert store.statuses() == [RunStatus.WAITING]
    assert store.recorded(execution.execution_id) == ["before"]


@pytest.mark.clause("run.retry.waiting-state")
def test_only_the_last_attempt_of_the_schedule_fails_the_step(store: Store, clock: SettableClock) -> None:
    calls = []
    for _ in range(EXACT.attempts):
        effect = Effect(failing(throttled()))
        execution = store.elsewhere()
        with pytest.raises((Waiting, StepFailed)) as ended, execution:
            execution.step("ask", effect, schedule=EXACT)
        calls.append((type(ended.value), *effect.attempts))
        clock.advance(HOUR)

    assert calls == [(Waiting, 1), (Waiting, 2), (Waiting, 3), (StepFailed, 4)]
    assert store.statuses() == [RunStatus.FAILED]


@pytest.mark.clause("run.retry.resume-at", "run.record.status-set")
def test_at_its_instant_the_attempt_goes_on_under_its_own_id_key_and_count(store: Store, clock: SettableClock) -> None:
    execution = parked(store, AWAY, throttled())
    clock.advance(HOUR)
    clock.waits.clear()
    effect = Effect()

    with store.elsewhere(run_id="another") as resumed:
        assert (resumed.run_id, resumed.execution_id) == (execution.run_id, execution.execution_id)
        row = store.run(resumed.run_id)
        assert (row.status, row.next_attempt_at) == (RunStatus.RUNNING, None)
        resumed.step("before", died)
        resumed.step("ask", effect, schedule=EXACT)

    assert effect.attempts == [3]
    assert (store.statuses(), sum(clock.waits)) == ([RunStatus.SUCCESS], 0)
    assert store.run(execution.run_id).error is None


@pytest.mark.clause("run.retry.resume-at")
def test_a_reopened_attempt_may_be_asked_for_by_its_own_id(store: Store, clock: SettableClock) -> None:
    execution = parked(store)
    clock.advance(HOUR)

    with store.elsewhere(run_id=execution.run_id) as resumed:
        resumed.step("ask", Effect())

    assert store.statuses() == [RunStatus.SUCCESS]


@pytest.mark.clause("run.retry.resume-at")
def test_an_attempt_that_comes_early_waits_again_without_calling(store: Store, clock: SettableClock) -> None:
    execution = parked(store)
    due = store.run(execution.run_id).next_attempt_at
    clock.advance(HOUR - LONGEST_SLEEP_MS - 1)

    early = store.elsewhere()
    with pytest.raises(Waiting) as wait, early:
        early.step("ask", died, schedule=EXACT)

    assert wait.value.due_at == due
    assert (store.statuses(), clock.waits) == ([RunStatus.WAITING], [])


@pytest.mark.clause("run.retry.resume-at", "run.retry.not-before")
def test_an_attempt_that_comes_a_little_early_sleeps_only_what_is_left(store: Store, clock: SettableClock) -> None:
    parked(store)
    clock.advance(HOUR - LONGEST_SLEEP_MS)

    effect = Effect()
    with store.elsewhere() as early:
        early.step("ask", effect, schedule=EXACT)

    assert (clock.waits, effect.attempts) == ([LONGEST_SLEEP_MS], [2])


@pytest.mark.clause("run.retry.resume-at")
def test_a_crash_in_the_middle_of_a_sleep_leaves_only_the_rest_of_it(store: Store, clock: SettableClock) -> None:
    sleeper = store.elsewhere()
    clock.interrupt(Died())
    with pytest.raises(Died):
        sleeper.step("ask", Effect(failing(throttled(LONGEST_SLEEP_MS))), schedule=EXACT)
    clock.advance(LEASE)
    clock.waits.clear()
    effect = Effect()

    store.elsewhere().step("ask", effect, schedule=EXACT)

    assert (clock.waits, effect.attempts) == ([LONGEST_SLEEP_MS - LEASE], [2])


@pytest.mark.clause("run.retry.not-before")
def test_the_instant_and_the_count_are_on_the_journals_row_before_the_wait_begins(store: Store) -> None:
    seen: list[tuple[int, int | None]] = []

    def noticed(*_: Any) -> None:
        (entry,) = store.entries(execution.execution_id)
        seen.append((entry.attempts, entry.next_attempt_at))

    execution = store.open(engine=store.engine(noticed=noticed))
    begun = store.clock.now()
    with pytest.raises(Waiting), execution:
        execution.step("ask", Effect(failing(AWAY, throttled())), schedule=EXACT)

    assert seen == [(1, begun + 1_000), (2, begun + 1_000 + HOUR)]
    (entry,) = store.entries(execution.execution_id)
    assert (entry.claim, entry.attempts, entry.next_attempt_at) == (None, *seen[-1])


@pytest.mark.clause("run.retry.wake")
def test_a_waiting_owner_names_its_instant_until_the_next_attempt_takes_it(store: Store, clock: SettableClock) -> None:
    execution = parked(store)
    owner = store.owner()
    assert owner is not None
    assert owner.wake_at == store.run(execution.run_id).next_attempt_at == clock.now() + HOUR
    clock.advance(HOUR)

    store.elsewhere()

    taken = store.owner()
    assert taken is not None
    assert (taken.wake_at, taken.attempt) == (None, execution.run_id)
    assert taken.lease_until > clock.now()


@pytest.mark.clause("run.retry.no-double-spend")
def test_a_resumed_attempt_calls_nothing_that_is_recorded(store: Store, clock: SettableClock) -> None:
    spent = Effect()
    for _ in range(3):
        execution = store.elsewhere()
        for number in range(5):
            execution.step(f"paid-{number}", spent)
        with pytest.raises(Waiting), execution:
            execution.step("ask", Effect(failing(throttled())), schedule=EXACT)
        clock.advance(HOUR)

    assert spent.calls == 5


@pytest.mark.clause("run.retry.waiting-state")
def test_two_that_come_at_the_instant_are_told_apart_and_one_goes_on(store: Store, clock: SettableClock) -> None:
    execution = parked(store)
    clock.advance(HOUR)
    first = store.elsewhere()

    with pytest.raises(ExecutionLive) as refusal:
        store.elsewhere(run_id=execution.run_id)

    assert (refusal.value.attempt, first.run_id) == (execution.run_id, execution.run_id)


@pytest.mark.clause("run.retry.waiting-state", "run.own.rewind-unsafe")
def test_what_waits_is_not_rewound_before_its_instant_and_is_canceled_with_its_owner_after(
    store: Store, clock: SettableClock
) -> None:
    execution = parked(store)
    with pytest.raises(ExecutionRewindUnsafe):
        rewind(store.here, execution.execution_id, reason="enough", force=True)
    clock.advance(HOUR)

    rewind(store.here, execution.execution_id, reason="enough", force=True)

    assert store.owner() is None
    assert store.run(execution.run_id).status is RunStatus.CANCELED
    told = {row.run_id: row.status for row in History(store.here.profile.objects).rows()}
    assert told[execution.run_id] is RunStatus.CANCELED


@pytest.mark.clause("run.retry.waiting-state", "run.record.rebuild-restores-history")
def test_the_history_follows_an_attempt_through_its_waits(store: Store, clock: SettableClock) -> None:
    history = History(store.here.profile.objects)
    execution = parked(store)
    told = [row.status for row in history.rows()]
    clock.advance(HOUR)
    resumed = store.elsewhere()
    told += [row.status for row in history.rows()]
    resumed.close()
    told += [row.status for row in history.rows()]

    assert told == [RunStatus.WAITING, RunStatus.RUNNING, RunStatus.SUCCESS]
    assert [row.run_id for row in history.rows()] == [execution.run_id]


@pytest.mark.clause("run.retry.waiting-state")
def test_a_resumed_attempt_that_dies_is_an_orphan_like_any_other(store: Store, clock: SettableClock) -> None:
    execution = parked(store)
    clock.advance(HOUR)
    resumed = store.elsewhere()
    clock.advance(LEASE)

    after = store.elsewhere()

    row = store.run(resumed.run_id)
    assert (row.status, row.next_attempt_at) == (RunStatus.PARTIAL_FAILURE, None)
    assert after.run_id != execution.run_id
    assert after.execution_id == execution.execution_id


@pytest.mark.clause("run.journal.current-owner")
def test_a_handle_whose_attempt_waits_does_nothing_more(store: Store, clock: SettableClock) -> None:
    left_behind = parked(store)
    clock.advance(HOUR)
    resumed = store.elsewhere()

    with pytest.raises(ExecutionSuperseded):
        left_behind.step("late", died)
    with pytest.raises(ExecutionSuperseded):
        store.here.owners.check(left_behind._held.attempt)

    assert resumed.step("late", Effect()) == "done"


@pytest.mark.clause("run.journal.claim-takeover", "run.journal.current-owner")
def test_a_claim_left_behind_by_a_thread_bars_no_one_once_the_attempt_goes_on(
    store: Store, clock: SettableClock
) -> None:
    entered, leave = threading.Event(), threading.Event()
    execution = store.elsewhere()

    def held_up(_: Call) -> str:
        entered.set()
        leave.wait(10)
        return "late"

    raised: list[BaseException] = []
    thread = threading.Thread(target=_ended_by(raised, lambda: execution.step("aside", held_up)))
    thread.start()
    entered.wait(10)
    with pytest.raises(Waiting), execution:
        execution.step("ask", Effect(failing(throttled())), schedule=EXACT)
    clock.advance(HOUR)
    resumed = store.elsewhere()

    assert resumed.step("aside", Effect("in time")) == "in time"

    leave.set()
    thread.join(10)
    assert [type(error) for error in raised] == [ExecutionSuperseded]
    assert resumed.step("aside", died) == "in time"


@pytest.mark.clause("run.retry.one-layer", "run.retry.waiting-state")
def test_a_step_whose_inner_step_waits_waits_with_it_and_spends_no_attempt(store: Store, clock: SettableClock) -> None:
    inner = Effect(failing(throttled(), answer="found"))
    outer: list[int] = []

    def work(execution: Execution) -> Any:
        def effect(call: Call) -> Any:
            outer.append(call.attempt)
            return execution.step("inner", inner, schedule=EXACT)

        return execution.step("outer", effect, schedule=EXACT)

    execution = store.elsewhere()
    with pytest.raises(Waiting), execution:
        work(execution)
    clock.advance(HOUR)

    assert work(store.elsewhere()) == "found"
    assert (outer, inner.attempts) == ([1, 1], [1, 2])


@pytest.mark.clause("run.retry.one-layer")
def test_a_throttle_and_an_outage_spend_one_budget(store: Store, clock: SettableClock) -> None:
    effect = Effect(failing(AWAY, throttled(), AWAY, AWAY, AWAY))
    with pytest.raises(Waiting), store.elsewhere() as execution:
        execution.step("ask", effect, schedule=EXACT)
    clock.advance(HOUR)

    with pytest.raises(StepFailed) as failure, store.elsewhere() as execution:
        execution.step("ask", effect, schedule=EXACT)

    assert failure.value.attempts == EXACT.attempts

    assert effect.attempts == [1, 2, 3, 4]


@pytest.mark.clause("run.retry.waiting-state", "run.journal.fan-out-join")
def test_a_join_waits_for_its_earliest_branch_once_all_have_ended(store: Store, clock: SettableClock) -> None:
    def asks(wait_ms: int) -> Callable[[Any], Any]:
        return lambda branch: branch.step("ask", Effect(failing(throttled(wait_ms))), schedule=EXACT)

    branches = {"slow": asks(2 * HOUR), "soon": asks(HOUR), "done": lambda branch: branch.step("ask", Effect())}
    execution = store.elsewhere()
    begun = clock.now()

    with pytest.raises(Waiting) as wait, execution:
        execution.join("all", branches, allow_partial=True)

    assert wait.value.due_at == begun + HOUR
    assert store.recorded(execution.execution_id) == ["all/done/ask"]
    assert store.run(execution.run_id).failed_branches == ()


@pytest.mark.clause("run.journal.fan-out-join")
def test_a_branch_that_fails_fails_the_join_though_another_waits(store: Store) -> None:
    branches = {
        "waits": lambda branch: branch.step("ask", Effect(failing(throttled()))),
        "fails": lambda branch: branch.step("ask", Effect(failing(Permanent("never")))),
    }
    execution = store.elsewhere()

    with pytest.raises(JoinFailed, match="fails"), execution:
        execution.join("all", branches)

    assert store.run(execution.run_id).status is RunStatus.FAILED


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


@pytest.mark.clause("run.retry.bound-hit-recorded", "run.retry.bound-hit-is-transient")
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


def _ended_by(raised: list[BaseException], work: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    return run
