"""One token a run: whatever waits hears it, and what it leaves is told as canceled and goes on later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import (
    Canceled,
    Transient,
)
from engine.schedule import Schedule
from engine.shapes import Phase, RunStatus
from engine.stop import stop
from tests.stops import stopped_while
from tests.stores import Effect, Store, failing

if TYPE_CHECKING:
    from engine.execution.call import Call


@pytest.mark.clause("run.cancel.one-token", "run.cancel.resumable-remains")
def test_a_stop_ends_a_retry_sleep_and_keeps_the_budget_that_was_left(store: Store) -> None:
    waits = Schedule(attempts=5, base_ms=60_000, max_delay_ms=60_000, jitter_ms=0)

    def noticed(*_: Any) -> None:
        stop(engine.profile, execution.run_id)
        engine.stopping._poll()

    engine = store.engine(noticed=noticed)
    execution = store.open(engine=engine)
    execution.step("recorded", Effect())

    with pytest.raises(Canceled), execution:
        execution.step("flaky", Effect(failing(Transient("cut off"))), schedule=waits)

    assert store.run(execution.run_id).status is RunStatus.CANCELED
    assert store.clock.waits == []
    (flaky,) = [entry for entry in store.entries(execution.execution_id) if entry.key.step == "flaky"]
    assert flaky.attempts == 1
    again = store.open()
    resumed = Effect()
    again.step("flaky", resumed, schedule=waits)
    assert (again.execution_id, resumed.attempts) == (execution.execution_id, [2])
    again.close()


@pytest.mark.clause("run.cancel.one-token", "run.cancel.resumable-remains")
def test_an_effect_that_heeds_the_token_uses_up_no_attempt(store: Store) -> None:
    execution = store.open()
    execution.step("recorded", Effect())
    schedule = Schedule(attempts=5, base_ms=1, jitter_ms=0)

    def heeding(call: Call) -> None:
        if call.attempt == 1:
            raise Transient("cut off")
        store.here.stop("interrupted")
        call.cancellation.check()

    with pytest.raises(Canceled), execution:
        execution.step("long", heeding, schedule=schedule)

    again, resumed = store.open(engine=store.engine()), Effect()
    again.step("long", resumed, schedule=schedule)
    assert resumed.attempts == [2]
    again.close()


@pytest.mark.clause("run.cancel.one-token")
def test_a_stop_ends_a_wait_for_an_outside_party(store: Store) -> None:
    execution = store.open()

    def work() -> None:
        with store.clock.standing(), execution:
            execution.wait("approval", ttl_ms=60_000)

    row = stopped_while(store, work, execution.run_id)

    assert row.status is RunStatus.CANCELED
    owner = store.owner()
    assert owner is not None
    assert owner.execution_id == execution.execution_id


@pytest.mark.clause("run.cancel.one-token")
def test_every_branch_of_a_join_hears_the_one_token(store: Store) -> None:
    execution = store.open()

    def work() -> None:
        with store.clock.standing(), execution:
            execution.join("both", {name: lambda branch: branch.wait("it", ttl_ms=60_000) for name in ("a", "b")})

    assert stopped_while(store, work, execution.run_id).status is RunStatus.CANCELED


@pytest.mark.clause("run.cancel.one-token", "run.cancel.resumable-remains")
def test_an_effect_at_work_when_it_is_stopped_is_recorded_and_nothing_follows(store: Store) -> None:
    execution = store.open()

    def charge(_: Call) -> str:
        stop(store.here.profile, execution.run_id)
        store.here.stopping._poll()
        return "charged"

    with pytest.raises(Canceled), execution:
        execution.step("charge", charge)

    assert store.run(execution.run_id).status is RunStatus.CANCELED
    again = store.open()
    never = Effect()
    assert again.step("charge", never) == "charged"
    assert never.calls == 0
    again.close()


@pytest.mark.clause("run.cancel.distinct-terminal-status", "run.cancel.abandoned-work")
def test_a_stopped_run_ends_canceled_and_not_failed(store: Store) -> None:
    execution = store.open()

    stop(store.here.profile, execution.run_id, reason="wrong month")
    store.here.stopping._poll()
    with pytest.raises(Canceled), execution:
        execution.step("one", Effect())

    row = store.run(execution.run_id)
    assert row.status is RunStatus.CANCELED
    assert row.status.terminal
    assert row.error == {"tag": "Canceled", "name": "Canceled", "message": "stopped on request: wrong month"}
    assert row.stop is not None
    recorded = {row.run_id: row for row in store.here.history.rows()}[execution.run_id]
    assert (recorded.status, recorded.stop) == (row.status, row.stop)
    assert Phase.COMMIT in {name.rsplit("-", 2)[1] for name in store.here.profile.objects.list("_runs/")}


@pytest.mark.clause("run.cancel.resumable-remains")
def test_a_stopped_run_that_recorded_nothing_leaves_nothing_pending(store: Store) -> None:
    execution = store.open()

    store.here.stop("interrupted")
    with pytest.raises(Canceled), execution:
        execution.step("one", Effect())

    assert store.owner() is None


@pytest.mark.clause("run.cancel.one-token")
def test_what_is_opened_by_an_engine_that_is_stopped_does_nothing(store: Store) -> None:
    engine = store.engine()
    engine.stop("interrupted")
    effect = Effect()

    with pytest.raises(Canceled, match="interrupted"), store.open(engine=engine) as execution:
        execution.step("one", effect)

    assert effect.calls == 0
