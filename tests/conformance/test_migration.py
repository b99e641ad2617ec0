"""From schema 3 to this one: what `storage initialize` brings over, and the one row it will not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import ExecutionRecoveryMismatch, ExecutionSchemaIncompatible, Refused
from engine.pipeline.declaration import Destination
from engine.ports import Call, Database, Statement
from engine.sql import SCHEMA_VERSION, call
from engine.storage import initialize
from tests.stores import LEASE, PROJECT, Effect, Store

if TYPE_CHECKING:
    from tests.clocks import SettableClock

VENDOR = {"vendor": Destination("vendor", "https://vendor.test")}
NEWER = ("holders", "guards", "guard_audit")
MARKS = ("admitted_at", "doubts", "receipt", "destination")


def raw(text: str) -> Call:
    """A statement no module has."""
    return Call(Statement("raw", text, (), reads=False, durable=True), {})


def of_schema_3(store: Store, *, token: str | None = None) -> Database:
    """Make the store what the release before this one left: one guard for all of it, and none of what is newer."""
    database = store.here.profile.database
    names = [name for (name,) in database.run(call("list_triggers"))[0]]
    views = ("standing_guards", "run_rows", "leased_owners")
    marks = MARKS if store.profile_name != "file" else ()
    database.run(
        *(raw(f"DROP TRIGGER {name}") for name in names),
        *(raw(f"DROP VIEW {name}") for name in views),
        *(raw(f"DROP TABLE {name}") for name in (*NEWER, "refusals")),
        *(raw(f"ALTER TABLE journal DROP COLUMN {name}") for name in marks),
        raw("CREATE TABLE refusals (reason TEXT NOT NULL CONSTRAINT superseded CHECK (reason <> 'superseded')) STRICT"),
        raw("CREATE TABLE guard (name TEXT PRIMARY KEY CHECK (name = 'global'), token TEXT NOT NULL,"
            " admitted_at INTEGER NOT NULL) STRICT"),
        *((raw(f"INSERT INTO guard VALUES ('global', '{token}', 1)"),) if token else ()),
        raw("UPDATE meta SET value = '3' WHERE name = 'schema'"),
    )  # fmt: skip
    return database


@pytest.mark.clause("run.journal.execution-schema")
def test_a_store_of_schema_3_is_refused_and_left_as_it_is(store: Store) -> None:
    database = of_schema_3(store)
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
    database = of_schema_3(store, token="g-legacy")

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
    database = of_schema_3(store, token="g-legacy")
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
    database = of_schema_3(store, token="g-legacy")
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
