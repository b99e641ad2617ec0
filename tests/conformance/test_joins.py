"""Branches run side by side and meet at their join."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from engine.errors import JoinFailed, Transient
from engine.schedule import Schedule
from engine.shapes import RunStatus
from tests.stores import LEASE, Effect, Store

if TYPE_CHECKING:
    from engine.execution.branch import Branch

ONCE = Schedule(attempts=1)


def fetch(branch: Branch, *, effect: Effect) -> str:
    return str(branch.step("fetch", effect, schedule=ONCE))


def refused() -> None:
    raise Transient("the vendor is away")


@pytest.mark.clause("run.journal.fan-out-join")
def test_a_join_returns_its_branches_values_in_order_once_all_have_ended(store: Store) -> None:
    met = threading.Barrier(3)
    branches = {name: partial(fetch, effect=Effect(partial(_meet, met, name))) for name in "cab"}

    values = store.open().join("both", branches)

    assert values == ("c", "a", "b")


@pytest.mark.clause("run.journal.fan-out-join")
def test_a_failed_branch_fails_the_run_and_its_siblings_work_stays(store: Store) -> None:
    execution = store.open()
    good = Effect("good")

    with pytest.raises(JoinFailed) as failure, execution:
        execution.join("both", {"good": partial(fetch, effect=good), "bad": partial(fetch, effect=Effect(refused))})

    assert failure.value.branch == "bad"
    assert store.run(execution.run_id).status is RunStatus.FAILED
    assert store.recorded(execution.execution_id) == ["both/good/fetch"]


@pytest.mark.clause("run.journal.fan-out-join", "run.record.columns")
def test_a_partial_join_records_the_failed_branch_and_its_tag(store: Store) -> None:
    with store.open() as execution:
        values = execution.join(
            "both",
            {"good": partial(fetch, effect=Effect("good")), "bad": partial(fetch, effect=Effect(refused))},
            allow_partial=True,
        )

    assert values == ("good", None)
    row = store.run(execution.run_id)
    assert row.status is RunStatus.SUCCESS
    assert row.failed_branches == ({"label": "both/bad", "tag": "Transient"},)


@pytest.mark.clause("run.journal.fan-out-join", "run.journal.step-output")
def test_a_join_taken_over_asks_only_the_branches_that_recorded_nothing(store: Store) -> None:
    good = Effect("good")
    crashed = store.elsewhere()
    with pytest.raises(JoinFailed):
        crashed.join("both", {"good": partial(fetch, effect=good), "bad": partial(fetch, effect=Effect(refused))})
    store.clock.advance(LEASE)

    values = store.open().join("both", {"good": partial(fetch, effect=good), "bad": partial(fetch, effect=Effect("b"))})

    assert values == ("good", "b")
    assert good.calls == 1


def _meet(met: threading.Barrier, name: str) -> str:
    met.wait(5)
    return name
