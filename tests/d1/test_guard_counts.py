"""What a guard costs at D1: a round trip none, two rows a step, and nothing that grows with what is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import ExecutionTransferBlocked
from engine.execution.keeper import RENEW_MS
from engine.shapes import INLINE_LIMIT
from tests.d1.test_d1_counts import cost
from tests.guarded import HOUR, engine_for
from tests.stores import LEASE, Effect

if TYPE_CHECKING:
    from d1.binding import Spent
    from engine.execution.execution import Execution
    from engine.host import Engine
    from tests.stores import Store

STANDING = 10


def sent(engine: Engine, execution: Execution, step: str, answer: object = None) -> Spent:
    return cost(engine, lambda: execution.step(step, Effect(answer), destination="vendor"))


@pytest.mark.clause("run.callback-guard.acquire", "run.callback-guard.release")
@pytest.mark.parametrize("window", [None, HOUR])
def test_a_guarded_step_is_two_round_trips_and_four_rows_written(store: Store, window: int | None):
    engine = engine_for(store, window=window)
    execution = store.open(engine=engine)
    sent(engine, execution, "warm")

    guarded = sent(engine, execution, "one", {"answer": 42})
    plain = cost(engine, lambda: execution.step("two", Effect({"answer": 42})))
    replayed = sent(engine, execution, "one")

    assert (guarded.round_trips, guarded.rows_written) == (2, 4)
    assert (plain.round_trips, plain.rows_written) == (2, 2)
    assert (replayed.round_trips, replayed.rows_written) == (2, 0)


def test_a_guarded_steps_value_at_the_cutoff_costs_no_more(store: Store):
    engine = engine_for(store)
    execution = store.open(engine=engine)
    sent(engine, execution, "warm")

    largest = sent(engine, execution, "one", b"x" * (INLINE_LIMIT - 64))

    assert (largest.round_trips, largest.rows_written) == (2, 4)


def test_a_guarded_steps_cost_does_not_grow_with_the_journal_and_by_a_row_read_for_each_guard_that_stands(store: Store):
    engine = engine_for(store)
    execution = store.open(engine=engine)
    sent(engine, execution, "warm")
    early = sent(engine, execution, "first")
    for number in range(20):
        execution.step(f"step {number}", Effect())
    long = sent(engine, execution, "later")
    beside = engine_for(store, window=None, stalls=True)
    for number in range(STANDING):
        with pytest.raises(ExecutionTransferBlocked):
            store.open(f"beside-{number}", engine=beside).step("send", Effect(_breaks), destination="vendor")

    late = sent(engine, execution, "last")

    assert long == early
    assert (late.round_trips, late.rows_written) == (early.round_trips, early.rows_written)
    assert late.rows_read <= early.rows_read + STANDING


def _breaks() -> None:
    raise OSError("the connection broke")


@pytest.mark.clause("run.record.owner-lease", "run.callback-guard.holder-identity")
@pytest.mark.parametrize("count", [1, 12])
def test_a_renewal_is_one_round_trip_and_one_row_a_holder_however_many_executions_are_open(store: Store, count: int):
    engine = engine_for(store, stalls=True)
    executions = [store.open(f"job-{number}", engine=engine) for number in range(count)]
    for execution in executions:
        execution.step("send", Effect(), destination="vendor")
    store.clock.advance(RENEW_MS)

    def tend() -> None:
        for each in executions:
            engine.leases._tend(each._held.attempt, each._held.cancellation)

    renewed = cost(engine, tend)

    assert (renewed.round_trips, renewed.rows_written) == (1, 1)
    owner = store.owner("job-0")
    assert owner is not None
    assert owner.lease_until == store.clock.now() + LEASE
