"""A key whose take went unheard is its taker's own, and stays nobody's for no longer than that is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from engine.errors import StorageBindingUnavailable
from engine.fences import Fences
from engine.guards.asked import Fence
from engine.sql import call

if TYPE_CHECKING:
    from engine.ports import Call, Database, Rows

pytestmark = pytest.mark.clause("run.journal.d1-transport", "run.items.fence")

KEY = "entity:customers:42"
FIRST, SECOND = Fence(KEY, "h-1", 1), Fence(KEY, "h-1", 2)


@pytest.fixture
def fences(desk) -> Fences:
    desk.register()
    return Fences(desk.database)


@dataclass
class Delayed:
    """A `Database` in front of `real` at which the write `late` arrives right before the next one."""

    real: Database
    late: Call | None = None

    def run(self, *calls: Call) -> list[Rows]:
        if self.late is not None and not all(each.statement.reads for each in calls):
            self.real.run(self.late)
            self.late = None
        return self.real.run(*calls)

    def now(self) -> int:
        return self.real.now()


def released(fences: Fences) -> None:
    first = fences.take(KEY, holder="h-1")
    assert first == FIRST
    fences.release(first)


def test_a_take_that_was_applied_is_known_by_its_fence(desk, fences):
    desk.database.lose("take_lease")

    assert fences.take(KEY, holder="h-1") == FIRST
    assert fences.take(KEY, holder="h-1") is None


def test_a_take_of_a_key_that_was_held_before_is_known_as_well(desk, fences):
    released(fences)
    desk.database.lose("retake_lease")

    assert fences.take(KEY, holder="h-1") == SECOND


@pytest.mark.parametrize("applied", [True, False])
def test_a_take_of_which_nothing_told_is_returned_to_whoever_of_its_engine_asks_next(desk, fences, applied: bool):
    released(fences)
    desk.database.lose("retake_lease", applied=applied, dead_after=applied)
    with pytest.raises(StorageBindingUnavailable):
        fences.take(KEY, holder="h-1")
    desk.database.reads_too = False

    assert fences.take(KEY, holder="h-1") == SECOND
    assert fences.take(KEY, holder="h-1") is None


def test_a_take_that_arrives_as_it_is_asked_again_is_one_take(desk, fences):
    desk.database.lose("take_lease", applied=False)
    with pytest.raises(StorageBindingUnavailable):
        fences.take(KEY, holder="h-1")
    fences._db = Delayed(desk.database, call("take_lease", key=KEY, holder="h-1"))

    assert fences.take(KEY, holder="h-1") == FIRST
    assert fences.take(KEY, holder="h-1") is None


def test_another_engines_take_is_not_taken_for_ones_own(desk, fences):
    desk.database.real.run(call("register_holder", holder="h-2", pid=2, boot_id="b", lease_ms=30_000))
    desk.database.lose("take_lease", applied=False)
    with pytest.raises(StorageBindingUnavailable):
        fences.take(KEY, holder="h-1")

    theirs = Fences(desk.database.real).take(KEY, holder="h-2")

    assert theirs == Fence(KEY, "h-2", 1)
    assert fences.take(KEY, holder="h-1") is None
