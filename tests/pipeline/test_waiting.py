"""Tables whose source asks for a long wait: their runs and fires wait, and are resumed where they stood."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import NOT_NOW, AuthExpired, ConnectorBoundHit, ExecutionPinMismatch, RateLimited, Transient
from engine.execution.steps import LONGEST_SLEEP_MS
from engine.fires import Fires
from engine.pipeline.waits import waiting
from engine.schedule import Schedule
from engine.shapes import FireState, Pull, RunStatus
from tests.pipeline.conftest import orders
from tests.stores import LEASE

if TYPE_CHECKING:
    from engine.pipeline.declaration import Table
    from engine.pipeline.runner import Outcome
    from tests.clocks import SettableClock
    from tests.pipeline.conftest import Shop

HOUR = 3_600_000


def throttled(wait_ms: int = HOUR) -> RateLimited:
    return RateLimited("429", wait_ms=wait_ms)


def parked(shop: Shop, *others: Table, **asked: Any) -> Outcome:
    """A fire in another process that leaves `orders` waiting for an hour at its third page."""
    shop.feed.serves(orders(1), orders(2), orders(3))
    shop.feed.failures = {2: throttled()}
    return shop.fire(shop.table(), *others, engine=shop.store.engine(), **asked)


def customers(shop: Shop, *rows: dict[str, Any], failure: Exception | None = None) -> Table:
    """A table with a source of its own."""

    def source(_: Any) -> Any:
        if failure:
            raise failure
        yield Pull(rows=list(rows) or [{"id": 9}])

    shop.module.feeds["other"] = source
    return shop.table("customers", entry="other")


def state(shop: Shop, outcome: Outcome) -> FireState:
    return Fires(shop.store.here.profile.database).read(outcome.fire_id).state


@pytest.mark.clause("run.retry.waiting-state", "run.retry.retry-after")
def test_a_table_told_to_wait_for_long_is_neither_refused_nor_failed(shop: Shop, clock: SettableClock) -> None:
    outcome = parked(shop)

    (run,) = outcome.runs
    assert (run.status, run.next_attempt_at) == (RunStatus.WAITING, clock.now() + HOUR)
    assert (outcome.refusals, outcome.state, outcome.exit_code) == ((), FireState.RUNNING, NOT_NOW)
    assert (run.batches, run.rows, shop.staged(), clock.waits) == (2, 0, [], [])
    owner = shop.owner()
    assert owner is not None
    assert (owner.attempt, owner.wake_at, owner.lease_until) == (run.run_id, run.next_attempt_at, 0)


@pytest.mark.clause("run.retry.resume-at", "run.retry.no-double-spend", "run.journal.replay-lands")
def test_at_its_instant_the_same_run_asks_only_for_what_is_not_recorded(shop: Shop, clock: SettableClock) -> None:
    (before,) = parked(shop, run_id="monday").runs
    clock.advance(HOUR)
    shop.feed.read.clear()

    outcome = shop.fire(shop.table(), run_id="monday")

    (run,) = outcome.runs
    assert (run.run_id, run.execution_id, run.status) == ("monday", before.execution_id, RunStatus.SUCCESS)
    assert (shop.feed.read, shop.ids(), run.replayed, run.error) == ([2], [1, 2, 3], 2, None)
    assert (outcome.state, outcome.exit_code, shop.marker().by.commit_id) == (FireState.COMPLETED, 0, "monday")
    assert [row.run_id for row in shop.store.here.runs.since(0, ceiling=9)] == ["monday"]


@pytest.mark.clause("run.retry.resume-at")
def test_a_fire_that_comes_early_asks_nothing_and_waits_on(shop: Shop, clock: SettableClock) -> None:
    due = parked(shop).runs[0].next_attempt_at
    shop.feed.read.clear()
    clock.advance(HOUR // 2)

    (run,) = shop.fire(shop.table()).runs

    assert (run.status, run.next_attempt_at, shop.feed.read) == (RunStatus.WAITING, due, [])


@pytest.mark.clause("run.retry.not-before", "run.retry.resume-at")
def test_the_budget_of_a_pull_is_one_over_all_its_waits(shop: Shop, clock: SettableClock) -> None:
    shop.feed.serves(orders(1))
    schedule = Schedule(attempts=3, jitter_ms=0)
    statuses = []
    for _ in range(3):
        shop.feed.failures = {0: throttled()}
        (run,) = shop.fire(shop.table(schedule=schedule), engine=shop.store.engine()).runs
        statuses.append(run.status)
        clock.advance(HOUR)

    assert statuses == [RunStatus.WAITING, RunStatus.WAITING, RunStatus.FAILED]
    assert run.error is not None
    assert "failed after 3 attempt(s)" in run.error["message"]
    assert shop.feed.read == [0, 0, 0]


@pytest.mark.clause("run.retry.waiting-state")
def test_a_start_fails_dead_fires_and_leaves_one_that_waits(shop: Shop, clock: SettableClock) -> None:
    outcome = parked(shop)
    dead, fires = shop.store.stalled(), Fires(shop.store.here.profile.database)
    dead.leases.register()
    fires.request("f-dead", pipeline_id="shop")
    assert fires.begin("f-dead", holder=dead.leases.holder)
    clock.advance(2 * LEASE)

    shop.fire(customers(shop), engine=shop.store.engine())

    assert (state(shop, outcome), fires.read("f-dead").state) == (FireState.RUNNING, FireState.FAILED)
    assert shop.store.run(outcome.runs[0].run_id).status is RunStatus.WAITING


@pytest.mark.clause("run.retry.waiting-state", "run.retry.wake")
def test_resuming_takes_the_waiting_fire_up_and_ends_it(shop: Shop, clock: SettableClock) -> None:
    first = parked(shop, customers(shop), idempotency_key="k")
    clock.advance(HOUR)

    again = shop.fire(shop.table(), shop.table("customers", entry="other"), idempotency_key="k")

    assert (again.fire_id, again.state, state(shop, again)) == (first.fire_id, *[FireState.COMPLETED] * 2)
    assert [run.run_id for run in again.runs] == [run.run_id for run in first.runs]
    assert {run.status for run in again.runs} == {RunStatus.SUCCESS}


@pytest.mark.clause("run.retry.waiting-state")
def test_a_fire_fails_for_its_failed_table_once_nothing_of_it_waits(shop: Shop, clock: SettableClock) -> None:
    first = parked(shop, customers(shop, failure=AuthExpired("the key has run out")))
    assert (first.state, first.exit_code) == (FireState.RUNNING, 1)
    clock.advance(HOUR)

    again = shop.fire(shop.table(), fire_id=first.fire_id)

    assert [run.status for run in again.runs] == [RunStatus.SUCCESS]
    assert (again.fire_id, state(shop, again)) == (first.fire_id, FireState.FAILED)


@pytest.mark.clause("run.retry.waiting-state")
def test_another_fire_takes_the_waiting_run_over_and_the_first_has_ended(shop: Shop, clock: SettableClock) -> None:
    first = parked(shop)
    clock.advance(HOUR)

    second = shop.fire(shop.table())
    shop.fire(shop.table())

    assert second.runs[0].run_id == first.runs[0].run_id
    assert [run.fire_id for run in second.runs] == [second.fire_id]
    assert [run.run_id for run in shop.store.here.runs.of_fire(second.fire_id)] == [first.runs[0].run_id]
    assert (state(shop, first), state(shop, second)) == (FireState.FAILED, FireState.COMPLETED)


@pytest.mark.clause("run.retry.wake")
def test_what_waits_is_listed_by_its_instant_with_the_fire_it_belongs_to(shop: Shop, clock: SettableClock) -> None:
    later = parked(shop)
    engine = shop.store.here
    shop.module.feeds["other"] = _raising(throttled(HOUR - 1))
    sooner = shop.fire(shop.table("customers", entry="other"), engine=shop.store.engine())

    due = waiting(engine)

    assert [(each.table, each.wake_at) for each in due] == [
        ("customers", clock.now() + HOUR - 1),
        ("orders", clock.now() + HOUR),
    ]
    assert [each.fire_id for each in due] == [sooner.fire_id, later.fire_id]


@pytest.mark.clause("run.retry.resume-at")
def test_a_fire_with_patience_sits_the_instant_out(shop: Shop, clock: SettableClock) -> None:
    asked: list[tuple[str, int]] = []

    def patient(scope: str, due_at: int) -> bool:
        asked.append((scope, due_at))
        clock.advance(due_at - clock.now())
        return True

    due = clock.now() + HOUR
    outcome = parked(shop, await_due=patient)

    assert asked == [("table:orders", due)]
    assert [run.status for run in outcome.runs] == [RunStatus.SUCCESS]
    assert (shop.feed.read, shop.ids(), outcome.exit_code) == ([0, 1, 2, 2], [1, 2, 3], 0)


@pytest.mark.clause("run.retry.resume-at", "run.own.pinned-plan-changed")
def test_a_changed_declaration_does_not_resume_what_waits(shop: Shop, clock: SettableClock) -> None:
    (before,) = parked(shop).runs
    clock.advance(HOUR)

    outcome = shop.fire(shop.table(primary_key=("id",)))

    assert [type(refusal) for refusal in outcome.refusals] == [ExecutionPinMismatch]
    assert shop.store.run(before.run_id).status is RunStatus.WAITING
    assert outcome.exit_code == 1


@pytest.mark.clause("run.retry.pressure-is-local")
def test_pressure_of_one_source_paces_no_other(shop: Shop, clock: SettableClock) -> None:
    outcome = parked(shop, customers(shop))

    assert {run.table: run.status for run in outcome.runs} == {
        "orders": RunStatus.WAITING,
        "customers": RunStatus.SUCCESS,
    }
    assert (shop.read("SELECT id FROM customers"), clock.waits) == ([(9,)], [])


@pytest.mark.clause("run.retry.partial-failure")
def test_a_run_that_fails_after_staging_commits_nothing_and_keeps_its_resume_point(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2), orders(3))
    shop.feed.failures = {2: ValueError("third page")}

    run = shop.run()

    owner = shop.owner()
    assert owner is not None
    assert (run.status, run.batches, owner.attempt) == (RunStatus.FAILED, 2, None)
    assert [name for name in shop.store.here.profile.objects.list("") if name.startswith("orders/")] == []
    assert shop.store.recorded(owner.execution_id) == ["pull:0", "pull:1"]


@pytest.mark.clause("run.retry.partial-failure", "run.record.orphan-reap")
def test_only_a_reaper_closes_a_run_as_a_partial_failure(shop: Shop, clock: SettableClock) -> None:
    shop.feed.serves(orders(1), orders(2))
    ended = []
    for failure in (ValueError("second page"), Transient("gone"), throttled(1), AuthExpired("key")):
        shop.feed.failures = {1: failure}
        ended.append(shop.run(schedule=Schedule(attempts=1)).status)
    shop.feed.failures = {1: throttled()}
    ended.append(shop.run(engine=shop.store.engine()).status)
    assert shop.store.engine().reap() == []
    clock.advance(HOUR)
    stalled = shop.store.held("left", engine=shop.store.stalled())
    clock.advance(LEASE)

    shop.store.engine()

    assert RunStatus.PARTIAL_FAILURE not in ended
    assert shop.store.run(stalled.run.run_id).status is RunStatus.PARTIAL_FAILURE


@pytest.mark.clause("run.retry.bound-hit-is-transient", "run.retry.bound-hit-recorded")
def test_a_source_that_strikes_a_bound_is_asked_again_and_the_run_says_so(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2))
    shop.feed.failures = {1: ConnectorBoundHit(place="orders, page 1", bound="linear-memory", limit="64 MiB")}

    run = shop.run()

    assert (run.status, shop.ids()) == (RunStatus.SUCCESS, [1, 2])
    assert list(run.bound_hits) == [{"step": "pull:1", "attempt": 1, "bound": "linear-memory"}]
    assert run.projection()["bound_hits"] == run.bound_hits


@pytest.mark.clause("run.retry.bound-hit-is-transient")
def test_a_bound_that_is_struck_every_time_fails_the_run_by_its_name(shop: Shop) -> None:
    def source(_: Any) -> Any:
        raise ConnectorBoundHit(place="orders, page 0", bound="call-deadline", limit="30 s a read")

    shop.module.script = source

    run = shop.run(schedule=Schedule(attempts=2, jitter_ms=0))

    assert run.error is not None
    assert (run.error["tag"], "call-deadline" in run.error["message"]) == ("Transient", True)
    assert [hit["attempt"] for hit in run.bound_hits] == [1, 2]


@pytest.mark.clause("run.retry.retry-after")
def test_a_short_wait_is_slept_through_in_the_middle_of_a_run(shop: Shop, clock: SettableClock) -> None:
    shop.feed.serves(orders(1), orders(2))
    shop.feed.failures = {1: throttled(LONGEST_SLEEP_MS)}

    assert shop.run().status is RunStatus.SUCCESS
    assert LONGEST_SLEEP_MS in clock.waits


def _raising(failure: Exception) -> Any:
    def source(_: Any) -> Any:
        raise failure

    return source
