"""From schema 3 to this one: what `storage initialize` brings over, and the one row it will not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import ExecutionRecoveryMismatch, ExecutionSchemaIncompatible, Refused
from engine.pipeline.declaration import Destination
from engine.sql import SCHEMA_VERSION, call
from engine.storage import initialize
from tests.earlier import of_schema_3, raw
from tests.stores import LEASE, PROJECT, Effect, Store

if TYPE_CHECKING:
    from tests.clocks import SettableClock

VENDOR = {"vendor": Destination("vendor", "https://vendor.test")}


@pytest.mark.clause("run.journal.execution-schema")
def test_a_store_of_schema_3_is_refused_and_left_as_it_is(store: Store) -> None:
    of_schema_3(store)
    database = store.here.profile.database
    before = database.run(call("list_tables"))

    with pytest.raises(ExecutionSchemaIncompatible, match="storage initialize") as refusal:
        store.engine()

    assert (refusal.value.found, refusal.value.supported, refusal.value.token) == ("3", str(SCHEMA_VERSION), None)
    assert database.run(call("list_tables")) == before


@pytest.mark.clause("run.journal.execution-schema")
def test_initializing_brings_schema_3_over_with_its_pending_work(store: Store, clock: SettableClock) -> None:
    execution = store.open("job")
    execution.step("paid", Effect(7))
    execution_id = execution.execution_id
    of_schema_3(store)
    clock.advance(LEASE)

    initialize(store.profile(), project=PROJECT)
    initialize(store.profile(), project=PROJECT)

    effect = Effect()
    resumed = store.open("job", engine=store.engine(destinations=VENDOR))
    assert resumed.execution_id == execution_id
    assert resumed.step("paid", effect) == 7
    assert effect.calls == 0
    assert resumed.step("charge", Effect(8), destination="vendor") == 8
    with pytest.raises(Refused, match="unsettled"):
        store.here.profile.database.run(raw("INSERT INTO refusals VALUES ('unsettled')"))


@pytest.mark.clause("run.callback-guard.legacy-guard")
def test_a_global_guard_keeps_the_store_at_schema_3_and_the_refusal_names_it_and_the_step(store: Store) -> None:
    of_schema_3(store, token="g-legacy")
    database = store.here.profile.database

    for opening in (store.engine, lambda: initialize(store.profile(), project=PROJECT)):
        with pytest.raises(ExecutionSchemaIncompatible) as refusal:
            opening()

        assert refusal.value.token == "g-legacy"
        assert "g-legacy" in str(refusal.value)
        assert "reconcile it with the release that wrote it, then run contextful storage initialize" in str(
            refusal.value
        )
    assert ("schema", "3") in database.run(call("read_meta"))[0]
    assert database.run(call("find_legacy_guard")) == [[("g-legacy",)]]


@pytest.mark.clause("run.callback-guard.legacy-guard")
def test_once_the_global_guard_is_reconciled_the_store_is_brought_over(store: Store) -> None:
    of_schema_3(store, token="g-legacy")
    database = store.here.profile.database
    with pytest.raises(ExecutionSchemaIncompatible):
        initialize(store.profile(), project=PROJECT)
    database.run(raw("DELETE FROM guard"))

    initialize(store.profile(), project=PROJECT)

    assert (
        store.open("job", engine=store.engine(destinations=VENDOR)).step("charge", Effect(1), destination="vendor") == 1
    )


@pytest.mark.clause("run.callback-guard.legacy-guard")
def test_a_global_guard_that_appears_while_the_store_is_brought_over_stops_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_schema_3(store, token="g-legacy")
    database = store.here.profile.database
    monkeypatch.setattr("engine.migration.legacy_guard", lambda _: None)

    with pytest.raises(ExecutionSchemaIncompatible):
        initialize(store.profile(), project=PROJECT)

    assert ("schema", "3") in database.run(call("read_meta"))[0]
    assert database.run(call("find_legacy_guard")) == [[("g-legacy",)]]


@pytest.mark.clause("run.journal.execution-recovery")
def test_a_store_that_lost_a_trigger_admits_no_work(store: Store) -> None:
    store.here.profile.database.run(raw("DROP TRIGGER owners_guarded"))

    with pytest.raises(ExecutionRecoveryMismatch, match="the trigger owners_guarded missing"):
        store.engine()
