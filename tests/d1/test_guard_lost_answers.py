"""Admissions and records whose answers are lost: settled by their own token before anything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import (
    ExecutionTransferBlocked,
    Permanent,
    StorageBindingUnavailable,
    Transient,
    Waiting,
)
from tests.d1.ground import Ground, ground, sends, warm
from tests.guarded import HOUR, TWICE
from tests.stores import Effect

if TYPE_CHECKING:
    from tests.stores import Store

pytestmark = pytest.mark.clause("run.journal.d1-transport", "run.journal.d1-guard")

AWAY = Transient("no answer came")


@pytest.fixture(params=[HOUR, None], ids=["window", "none"])
def over(request: pytest.FixtureRequest, store: Store) -> Ground:
    return ground(store, window=request.param)


@pytest.fixture
def covered(store: Store) -> Ground:
    return ground(store, window=HOUR)


@pytest.fixture
def uncovered(store: Store) -> Ground:
    return ground(store, window=None)


def test_an_admission_that_was_applied_is_known_by_its_token_and_goes_on(over):
    execution, effect = over.open(), Effect("sent")
    over.database.lose("acquire_guard")

    assert sends(execution, effect) == "sent"

    assert over.sent("acquire_guard") == effect.calls == 1
    assert over.guards() == []


def test_an_admission_of_which_nothing_tells_sends_nothing_and_is_undone_by_the_next(over):
    execution, effect = over.open(), Effect("sent")
    over.database.lose("acquire_guard", applied=False)
    first = sends(execution, effect)
    none_sent = effect.calls
    over.database.arrive()
    stray = over.guards()

    assert sends(execution, effect) == "sent"

    assert isinstance(first, StorageBindingUnavailable)
    assert (none_sent, effect.calls) == (0, 1)
    assert len(stray) == 1
    assert over.guards() == []
    assert over.doubts(execution) == [1]


def test_an_admission_that_arrives_while_the_next_is_out_binds_nothing(over):
    execution = over.open()
    over.database.lose("acquire_guard", applied=False)
    sends(execution, Effect())
    seen: list[list[str]] = []

    def effect() -> None:
        before = [guard.token for guard in over.guards()]
        over.database.arrive()
        seen.append([guard.token for guard in over.guards()])
        assert seen == [before]

    assert sends(execution, Effect(effect)) is None
    assert over.guards() == []


@pytest.mark.parametrize("end", ["retired", "released", "parked"])
def test_an_admission_that_arrives_once_its_attempt_is_over_binds_nothing(over, end: str):
    execution = over.open()
    warm(execution)
    over.database.lose("acquire_guard", applied=False)
    sends(execution, Effect())
    failures = {"released": Permanent("no"), "parked": Waiting(step="send", due_at=over.store.clock.now() + 1)}

    execution.close(failure=failures.get(end))
    over.database.arrive()

    assert over.guards() == []


@pytest.mark.parametrize("end", ["retired", "released", "parked"])
def test_what_is_unsettled_is_undone_before_its_attempt_ends(over, end: str):
    execution = over.open()
    warm(execution)
    over.database.lose("acquire_guard", applied=False)
    sends(execution, Effect())
    over.database.arrive()
    stray = over.guards()
    failures = {"released": Permanent("no"), "parked": Waiting(step="send", due_at=over.store.clock.now() + 1)}

    execution.close(failure=failures.get(end))

    assert len(stray) == 1
    assert over.guards() == []
    assert (over.store.owner() is None) is (end == "retired")


def test_what_could_not_be_undone_at_the_end_is_undone_by_the_next_open(over):
    execution = over.open()
    warm(execution)
    over.database.lose("acquire_guard", applied=False)
    sends(execution, Effect())
    over.database.arrive()
    over.database.lose("release_guard", applied=False)
    execution.close(failure=Permanent("no"))
    stood = over.guards()

    effect = Effect("sent")
    assert sends(over.open(), effect) == "sent"

    assert len(stood) == 1
    assert effect.calls == 1


def test_a_record_that_was_applied_is_known_by_its_value(over):
    execution, effect = over.open(), Effect("sent")
    over.database.lose("record_entry")

    assert sends(execution, effect) == "sent"

    assert over.sent("record_entry") == effect.calls == 1
    assert over.guards() == []


def test_a_record_that_was_not_applied_is_finished(over):
    execution, effect = over.open(), Effect("sent")
    over.database.lose("record_entry", applied=False)

    assert sends(execution, effect) == "sent"

    over.database.arrive()
    assert over.sent("record_entry") == 2
    assert effect.calls == 1
    assert over.guards() == []
    assert over.doubts(execution) == [1]


def test_guard_and_value_go_in_one_batch_the_guard_first(over):
    over.database.lose("nothing")
    sends(over.open(), Effect("sent"))

    (batch,) = [names for names in over.database.sent if "record_entry" in names]
    assert batch == ["require_recordable", "release_guard", "record_entry"]


@pytest.mark.parametrize("applied", [True, False])
def test_a_record_of_which_nothing_tells_is_found_by_the_next_try_or_sent_again_under_its_key(covered, applied: bool):
    execution, effect = covered.open(), Effect("sent")
    warm(execution)
    covered.database.lose("record_entry", applied=applied, dead_after=True)
    first = sends(execution, effect, schedule=TWICE)
    covered.database.reads_too = False

    assert sends(execution, effect) == "sent"

    assert isinstance(first, StorageBindingUnavailable)
    assert effect.calls == (1 if applied else 2)
    assert len(set(effect.keys)) == 1
    covered.database.arrive()
    assert covered.guards() == []
    execution.close()
    assert covered.store.owner() is None


@pytest.mark.parametrize("applied", [True, False])
def test_without_a_window_a_record_of_which_nothing_tells_is_found_or_stands_guarded(uncovered, applied: bool):
    execution, effect = uncovered.open(), Effect("sent")
    warm(execution)
    uncovered.database.lose("record_entry", applied=applied, dead_after=True)
    sends(execution, effect, schedule=TWICE)
    uncovered.database.reads_too = False

    again = sends(execution, effect)

    assert effect.calls == 1
    if applied:
        assert again == "sent"
        assert uncovered.guards() == []
    else:
        assert isinstance(again, ExecutionTransferBlocked)
        assert [guard.token for guard in uncovered.guards()] == [again.token]


@pytest.mark.clause("run.journal.current-owner")
def test_a_record_that_arrives_while_its_key_is_out_again_records_nothing(covered):
    execution = covered.open()
    warm(execution)
    covered.database.lose("record_entry", applied=False, dead_after=True)
    sends(execution, Effect("first"))
    covered.database.reads_too = False
    between: list[list[str]] = []

    def effect() -> str:
        covered.database.arrive()
        between.append(covered.store.recorded(execution.execution_id))
        return "second"

    assert sends(execution, Effect(effect)) == "second"
    assert between == [["warm"]]
    assert covered.guards() == []
