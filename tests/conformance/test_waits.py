"""A wait too long to sleep through: the attempt closes, keeps its owner, and goes on as itself at its instant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import NOT_NOW, ExecutionLive, ExecutionRewindUnsafe, RunIdUsed, StepFailed, Waiting
from engine.execution.steps import LONGEST_SLEEP_MS
from engine.history import History
from engine.rewind import rewind
from engine.shapes import RunStatus
from engine.stop import stop
from tests.stores import LEASE, Died, Effect, died, failing
from tests.waits import AWAY, EXACT, HOUR, parked, throttled

if TYPE_CHECKING:
    from tests.clocks import SettableClock
    from tests.stores import Store


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
        store.elsewhere()
    with pytest.raises(RunIdUsed):
        store.elsewhere(run_id=execution.run_id)

    assert (refusal.value.attempt, first.run_id) == (execution.run_id, execution.run_id)
    assert first.step("ask", Effect()) == "done"


@pytest.mark.clause("run.retry.waiting-state", "run.own.rewind-unsafe", "run.own.rewind-record")
@pytest.mark.parametrize("passed", [0, HOUR])
def test_what_waits_is_not_rewound_before_or_after_its_instant_and_is_once_it_is_stopped(
    store: Store, clock: SettableClock, passed: int
) -> None:
    execution = parked(store)
    clock.advance(passed)
    with pytest.raises(ExecutionRewindUnsafe, match=f"contextful run stop {execution.run_id}") as refusal:
        rewind(store.here, execution.execution_id, reason="enough", force=True)
    standing = store.run(execution.run_id).status
    stop(store.here.profile, execution.run_id)

    row = rewind(store.here, execution.execution_id, reason="enough", force=True)

    assert f"attempt {execution.run_id} waits" in refusal.value.alive
    assert (standing, store.run(execution.run_id).status) == (RunStatus.WAITING, RunStatus.CANCELED)
    assert store.owner() is None
    told = {row.run_id: row.status for row in History(store.here.profile.objects).rows()}
    assert told == {execution.run_id: RunStatus.CANCELED, row.run_id: RunStatus.CANCELED}


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
