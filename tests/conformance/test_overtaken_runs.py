"""The run of an attempt whose owner was taken from it: it does not read as running until an engine starts anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import Permanent, StepFailed
from engine.shapes import Phase, RunStatus
from tests.stores import LEASE, Effect, Store, failing

if TYPE_CHECKING:
    from tests.clocks import SettableClock


@pytest.mark.clause("run.record.orphan-reap", "run.own.unclosed-execution")
def test_the_run_of_an_overtaken_attempt_is_closed_as_an_orphan_by_whoever_took_its_owner(
    store: Store, clock: SettableClock
) -> None:
    here, dead = store.here, store.elsewhere()
    dead.step("one", Effect())
    beside = store.elsewhere("beside")
    clock.advance(LEASE)

    with store.open(engine=here) as taker:
        row = store.run(dead.run_id)

    assert (row.status, row.ended_at, row.execution_id) == (RunStatus.PARTIAL_FAILURE, clock.now(), taker.execution_id)
    assert store.run(taker.run_id).status is RunStatus.SUCCESS
    assert dead.run_id in {each.run.run_id for each in store.here.history.appended() if each.phase is Phase.COMMIT}
    # A lease that has merely lapsed is a start's to judge: nobody took that owner, and its holder may renew it.
    assert store.run(beside.run_id).status is RunStatus.RUNNING


@pytest.mark.clause("run.record.orphan-reap")
def test_a_resume_of_what_was_released_closes_nothing(store: Store) -> None:
    first = store.open()
    first.step("one", Effect())
    with pytest.raises(StepFailed), first:
        first.step("two", Effect(failing(Permanent("no"))))

    with store.open() as second:
        resumed = second.resumed

    assert resumed
    assert [store.run(each.run_id).status for each in (first, second)] == [RunStatus.FAILED, RunStatus.SUCCESS]
