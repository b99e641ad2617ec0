"""Two that bring one store over at once: whichever is second finds it as it wants it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from engine.errors import StorageUnusable
from engine.sql import SCHEMA_VERSION, call
from engine.storage import initialize
from tests.earlier import of_schema_3, of_schema_4
from tests.guarded import Overtaken
from tests.stores import PROJECT, Effect, Store

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 5


def initialized(store: Store, name: str, first: Callable[[], object]) -> None:
    """Initialize the store; `first` happens just before the batch of the statement `name`."""
    profile = store.profile()
    initialize(replace(profile, database=Overtaken(profile.database, name, first)), project=PROJECT)


def schema(store: Store) -> str:
    meta: dict[str, str] = dict(store.here.profile.database.run(call("read_meta"))[0])
    return meta["schema"]


@pytest.mark.clause("run.journal.execution-schema")
@pytest.mark.parametrize(
    ("earlier", "name"),
    [(of_schema_3, "find_legacy_guard"), (of_schema_3, "advance_schema"), (of_schema_4, "advance_schema")],
)
def test_a_store_that_another_brings_over_meanwhile_is_brought_over(
    store: Store, earlier: Callable[[Store], None], name: str
) -> None:
    execution = store.open()
    execution.step("paid", Effect(7))
    earlier(store)

    initialized(store, name, lambda: initialize(store.profile(), project=PROJECT))

    assert schema(store) == str(SCHEMA_VERSION)
    assert execution.step("paid", Effect()) == 7


@pytest.mark.clause("run.journal.execution-schema")
def test_two_that_have_read_the_same_schema_both_bring_it_over(store: Store) -> None:
    with store.clock.standing(), ThreadPoolExecutor(2) as pool:
        for _ in range(ROUNDS):
            of_schema_4(store)
            met = partial(threading.Barrier(2).wait, 10)
            both = [pool.submit(initialized, store, "advance_schema", met) for _ in range(2)]

            assert [each.result() for each in both] == [None, None]
            assert schema(store) == str(SCHEMA_VERSION)


@pytest.mark.clause("run.journal.execution-schema")
def test_a_store_that_fails_by_itself_says_so_and_stays_at_its_schema(store: Store) -> None:
    of_schema_4(store)

    with pytest.raises(StorageUnusable, match="the disk is full"):
        initialized(store, "advance_schema", _full)

    assert schema(store) == "4"


def _full() -> None:
    raise StorageUnusable(place="state", reason="the disk is full")
