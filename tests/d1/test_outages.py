"""A step whose record got no answer: raised as unknown, and the same attempt goes on under the claim it had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from engine.errors import StorageBindingUnavailable, Transient
from engine.schedule import Schedule
from tests.d1.conftest import Lossy
from tests.stores import Effect, failing

if TYPE_CHECKING:
    from d1.database import D1Database
    from engine.execution.execution import Execution
    from tests.stores import Store

pytestmark = pytest.mark.clause("run.journal.d1-transport")


@pytest.fixture
def lossy(store: Store) -> Lossy:
    """The journal's way to the database of the store's engine."""
    journal = cast("Any", store.here.profile.journal)
    journal._db = Lossy(cast("D1Database", store.here.profile.database))
    return cast("Lossy", journal._db)


@pytest.fixture
def execution(store: Store, lossy: Lossy) -> Execution:
    return store.open()


def test_a_record_that_was_not_applied_is_raised_and_the_step_can_be_asked_for_again(
    execution: Execution, lossy: Lossy
) -> None:
    effect = Effect("paid")
    lossy.lose("record_entry", applied=False)

    with pytest.raises(StorageBindingUnavailable) as raised:
        execution.step("pay", effect)
    again = execution.step("pay", effect)

    assert raised.value.applied == "unknown"
    assert again == "paid"
    assert effect.keys == effect.keys[:1] * 2


@pytest.mark.parametrize("statement", ["claim_entry", "record_entry"])
def test_what_was_applied_unheard_is_gone_on_with_when_the_step_is_asked_for_again(
    execution: Execution, lossy: Lossy, statement: str
) -> None:
    effect = Effect("paid")
    lossy.lose(statement, dead_after=True)

    with pytest.raises(StorageBindingUnavailable):
        execution.step("pay", effect)
    lossy.reads_too = False

    assert execution.step("pay", effect) == "paid"
    assert effect.calls == 1


@pytest.mark.parametrize("statement", ["surrender_claim", "renew_claim"])
def test_a_step_that_failed_unheard_is_asked_for_again_and_waits_for_nobody(
    execution: Execution, lossy: Lossy, statement: str
) -> None:
    effect = Effect(failing(Transient("away")))
    lossy.lose(statement, applied=False)

    with pytest.raises(StorageBindingUnavailable):
        execution.step("pay", effect, schedule=Schedule(attempts=1 if statement == "surrender_claim" else 2))

    assert execution.step("pay", effect) == "done"
    assert effect.keys == effect.keys[:1] * 2
