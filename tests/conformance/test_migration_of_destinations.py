"""From schema 4, whose entries kept no destination, to this one: what is in doubt goes on where a guard tells it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine.errors import EffectElsewhere, ExecutionSchemaIncompatible, StepFailed, Transient
from engine.pipeline.declaration import Destination
from engine.sql import SCHEMA_VERSION, call
from engine.storage import initialize
from tests.earlier import of_schema_4, raw
from tests.guarded import HOUR, ONCE, Overtaken, left_sending, vendor
from tests.stores import PROJECT, Died, Effect, Store, failing

if TYPE_CHECKING:
    from engine.execution.execution import Execution

BOTH = {"vendor": vendor(), "other": Destination("other", "http://other.test", dedup_window_ms=HOUR)}


def reopened(store: Store) -> Execution:
    return store.open(engine=store.engine(destinations=BOTH))


@pytest.mark.clause("run.journal.execution-schema")
def test_a_store_of_schema_4_is_refused_until_it_is_brought_over_with_its_recorded_work(store: Store) -> None:
    with store.open() as execution:
        execution.step("paid", Effect(7))
        of_schema_4(store)

        with pytest.raises(ExecutionSchemaIncompatible, match="storage initialize") as refusal:
            store.engine()
        initialize(store.profile(), project=PROJECT)
        initialize(store.profile(), project=PROJECT)

        assert (refusal.value.found, refusal.value.supported) == ("4", str(SCHEMA_VERSION))
        assert ("schema", str(SCHEMA_VERSION)) in store.here.profile.database.run(call("read_meta"))[0]
        assert [entry.destination for entry in store.entries(execution.execution_id)] == [None]
        assert execution.step("paid", Effect()) == 7


@pytest.mark.clause("run.callback-guard.window", "run.journal.execution-schema")
def test_what_was_in_doubt_under_no_guard_is_held_to_its_window_as_before(store: Store) -> None:
    with pytest.raises(StepFailed), reopened(store) as first:
        first.step("send", Effect(failing(Transient("no answer came"))), schedule=ONCE, destination="vendor")
    of_schema_4(store)

    initialize(store.profile(), project=PROJECT)

    again, sent = reopened(store), Effect(failing(Transient("no answer came")))
    with pytest.raises(EffectElsewhere, match="name its destination again"):
        again.step("send", sent)
    with pytest.raises(StepFailed):
        again.step("send", sent, schedule=ONCE, destination="vendor")
    with pytest.raises(EffectElsewhere, match="name vendor again"):
        again.step("send", sent, destination="other")
    assert sent.calls == 1


@pytest.mark.clause("run.callback-guard.window", "run.journal.execution-schema")
def test_a_guard_that_stands_tells_the_destination_of_its_entry(store: Store) -> None:
    dead = left_sending(store)
    of_schema_4(store)

    initialize(store.profile(), project=PROJECT)

    assert [entry.destination for entry in store.entries(dead.execution.execution_id)] == ["vendor"]
    sent = Effect()
    with pytest.raises(EffectElsewhere, match="name vendor again"):
        reopened(store).step("send", sent, destination="other")
    assert sent.calls == 0


@pytest.mark.clause("run.callback-guard.window", "run.journal.execution-schema")
def test_a_migration_that_died_before_its_batch_is_repeated_with_what_the_guards_tell(store: Store) -> None:
    dead = left_sending(store)
    of_schema_4(store)
    profile = store.profile()

    with pytest.raises(Died):
        initialize(replace(profile, database=Overtaken(profile.database, "advance_schema", _dies)), project=PROJECT)
    assert ("schema", "4") in profile.database.run(call("read_meta"))[0]
    initialize(store.profile(), project=PROJECT)

    assert [entry.destination for entry in store.entries(dead.execution.execution_id)] == ["vendor"]


@pytest.mark.clause("run.callback-guard.window", "run.journal.execution-schema")
def test_an_entry_that_knows_its_destination_is_told_no_other(store: Store) -> None:
    dead = left_sending(store)
    store.here.profile.database.run(
        raw("UPDATE guards SET destination = 'other'"), raw("UPDATE meta SET value = '4' WHERE name = 'schema'")
    )

    initialize(store.profile(), project=PROJECT)

    assert [entry.destination for entry in store.entries(dead.execution.execution_id)] == ["vendor"]


def _dies() -> None:
    raise Died
