"""Releases whose answers are lost: made once, and only while what they release on still holds."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from engine.errors import (
    ExecutionTransferBlocked,
    RateLimited,
    StepFailed,
    StorageBindingUnavailable,
    Transient,
)
from engine.guards.desk import Desk as Operators
from tests.d1.ground import Ground, ground, sends, warm
from tests.guarded import HOUR, TWICE, receipt
from tests.stores import LEASE, Effect, failing

if TYPE_CHECKING:
    from tests.stores import Store

pytestmark = pytest.mark.clause("run.journal.d1-transport", "run.journal.d1-guard")

AWAY = Transient("no answer came")


@pytest.fixture
def covered(store: Store) -> Ground:
    return ground(store, window=HOUR)


@pytest.fixture
def uncovered(store: Store) -> Ground:
    return ground(store, window=None)


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize(("failure", "left"), [(RateLimited("slow down"), 0), (AWAY, 1)])
def test_a_release_of_which_nothing_tells_is_made_once_before_the_next_admission(
    covered, failure: Exception, left: int, applied: bool, arrives: bool
):
    execution = covered.open()
    warm(execution)
    over = covered.database
    over.lose("release_guard" if left == 0 else "release_covered", applied=applied)
    first = sends(execution, Effect(failing(failure)))
    if arrives:
        over.arrive()

    doubts: list[list[int]] = []
    value = sends(execution, Effect(lambda: doubts.append(covered.doubts(execution))))
    over.arrive()

    assert isinstance(first, StepFailed if applied else StorageBindingUnavailable)
    assert value is None
    assert [sorted(each) for each in doubts] == [[1, left + 1]]
    assert covered.guards() == []


def test_a_release_that_arrives_after_the_window_leaves_the_guard_to_evidence(covered):
    execution = covered.open()
    warm(execution)
    covered.database.lose("release_covered", applied=False)
    sends(execution, Effect(failing(AWAY)))
    covered.store.clock.advance(HOUR)
    covered.database.arrive()

    blocked = sends(execution, Effect())

    (guard,) = covered.guards()
    assert isinstance(blocked, ExecutionTransferBlocked)
    assert (blocked.token, blocked.evidence_class) == (guard.token, "unknown")


def test_a_guard_that_must_stand_is_sent_under_no_more_though_the_store_is_away(uncovered):
    execution = uncovered.open()
    warm(execution)

    def goes_away() -> None:
        uncovered.database.losing, uncovered.database.reads_too = None, True
        raise AWAY

    effect = Effect(goes_away)
    first = sends(execution, effect, schedule=TWICE)
    uncovered.database.reads_too = False

    second = sends(execution, effect, schedule=TWICE)

    assert isinstance(first, StorageBindingUnavailable)
    assert isinstance(second, ExecutionTransferBlocked)
    assert effect.calls == 1


@pytest.mark.parametrize("applied", [True, False])
def test_a_reconciliation_of_which_no_answer_came_is_known_by_its_audit_row(uncovered, applied: bool):
    execution = uncovered.open()
    with suppress(ExecutionTransferBlocked):
        execution.step("send", Effect(failing(AWAY)), destination="vendor")
    (guard,) = uncovered.guards()
    uncovered.store.clock.advance(LEASE)
    operators = Operators(uncovered.database, uncovered.engine.profile.admission)
    uncovered.database.lose("audit_guard", applied=applied)

    raised = None
    try:
        operators.reconcile(guard.token, evidence=receipt(guard), operator="ops")
    except StorageBindingUnavailable as unavailable:
        raised = unavailable.applied

    assert raised == (None if applied else "unknown")
    assert len(operators.audits()) == int(applied)
    assert len(uncovered.guards()) == int(not applied)
