"""What a store must hold and offer before it is given work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import (
    AdmittedOwnerMutation,
    AwakeableTimedOut,
    CapabilityUnwired,
    EffectNested,
    ExecutionPinMismatch,
    ExecutionRecoveryMismatch,
    ExecutionSchemaIncompatible,
    StepFailed,
    StorageProfileUnsupported,
    Transient,
)
from engine.pipeline.declaration import Destination
from engine.ports import Awakeables, Call, Database, JournalStore, Statement
from engine.profile import open_profile
from engine.schedule import Schedule
from engine.shapes import RunStatus
from engine.sql import SCHEMA_VERSION, call
from tests.conftest import ON_EDGE
from tests.stores import LEASE, Effect, Store, died, failing

if TYPE_CHECKING:
    from pathlib import Path

    from tests.clocks import SettableClock

VENDOR = {"vendor": Destination("vendor", "https://vendor.test", dedup_window_ms=3_600_000)}


def raw(text: str) -> Call:
    """A statement no module has: what an operator or a partial restore did to the store."""
    return Call(Statement("raw", text, (), reads=False, durable=True), {})


def tables(database: Database) -> list[str]:
    return [name for (name,) in database.run(call("list_tables"))[0]]


@pytest.mark.clause("run.journal.execution-recovery")
def test_an_empty_store_admits_no_work_and_is_not_filled_on_the_way(blank: Store) -> None:
    with pytest.raises(ExecutionRecoveryMismatch):
        blank.engine()

    assert tables(blank.profile().database) == []


@pytest.mark.clause("run.journal.execution-recovery", "run.journal.execution-schema")
def test_a_missing_table_is_named_and_not_replaced(store: Store) -> None:
    store.here.profile.database.run(raw("DROP VIEW leased_owners"), raw("DROP TABLE owners"))

    with pytest.raises(ExecutionRecoveryMismatch, match="owners"):
        store.engine()

    assert "owners" not in tables(store.here.profile.database)


@pytest.mark.clause("run.journal.execution-recovery")
def test_a_store_of_another_project_admits_no_work(store: Store) -> None:
    with pytest.raises(ExecutionRecoveryMismatch, match="demo"):
        store.engine(project="another")


@pytest.mark.clause("run.journal.execution-schema")
def test_a_store_of_another_schema_admits_no_work(store: Store) -> None:
    store.here.profile.database.run(raw("UPDATE meta SET value = '3' WHERE name = 'schema'"))

    with pytest.raises(ExecutionSchemaIncompatible) as refusal:
        store.engine()

    assert (refusal.value.found, refusal.value.supported) == ("3", str(SCHEMA_VERSION))


@pytest.mark.clause("run.journal.execution-schema")
def test_a_store_that_does_not_say_its_schema_admits_no_work_and_is_told_none(store: Store) -> None:
    database = store.here.profile.database
    database.run(raw("DELETE FROM meta WHERE name = 'schema'"))

    with pytest.raises(ExecutionSchemaIncompatible) as refusal:
        store.engine()

    assert refusal.value.found == "none"
    assert "schema" not in dict(database.run(call("read_meta"))[0])


@pytest.mark.clause("run.journal.storage-unsupported")
def test_an_unknown_profile_selects_no_other(tmp_path: Path, clock: SettableClock) -> None:
    with pytest.raises(StorageProfileUnsupported, match="sqlite") as refusal:
        open_profile("sqlite3", tmp_path / "project", clock=clock, environ={})

    assert refusal.value.profile == "sqlite3"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.clause("run.journal.unwired-capability", "run.journal.guard-callback")
def test_a_local_profile_offers_no_strict_guards_and_says_so_at_the_first_request(store: Store) -> None:
    if store.profile_name == ON_EDGE:
        store.here.profile.require("strict-guards")
        return
    store.here.profile.require("cooperative-admission")

    with pytest.raises(CapabilityUnwired) as refusal:
        store.here.profile.require("strict-guards")

    assert refusal.value.profile == store.here.profile.name
    assert refusal.value.capability == "strict-guards"


@pytest.mark.clause("run.journal.storage-ports")
def test_every_store_is_reached_through_its_port_alone(store: Store) -> None:
    profile = store.here.profile

    for port, adapter in ((JournalStore, profile.journal), (Awakeables, profile.awakeables)):
        verbs = [name for name in vars(port) if not name.startswith("_")]
        assert [verb for verb in verbs if not callable(getattr(adapter, verb, None))] == []
    for capability in ("journal", "blobs", "awakeables", "owners"):
        profile.require(capability)


@pytest.mark.clause("run.journal.substrate-port")
def test_one_execution_opens_records_retries_waits_and_resumes(store: Store, clock: SettableClock) -> None:
    tokens: list[str] = []
    first = store.elsewhere(plan="sha256:plan")
    first.step("record", Effect(1), schedule=Schedule(attempts=3))
    clock.advance(30_000)

    with store.open(plan="sha256:plan") as execution:
        replayed = execution.step("record", died)

        def resolve(token: str) -> None:
            tokens.append(token)
            store.here.profile.awakeables.resolve(token, b'"yes"', at=clock.now())

        answer = execution.wait("approval", ttl_ms=1000, announce=resolve)

    assert (replayed, answer) == (1, "yes")
    assert store.run(execution.run_id).status is RunStatus.SUCCESS
    assert store.run(execution.run_id).plan_ref == "sha256:plan"


@pytest.mark.clause("run.journal.substrate-port")
def test_an_execution_keeps_to_its_schedule_its_deadline_and_its_plan(store: Store, clock: SettableClock) -> None:
    away = Effect(failing(Transient("away"), answer=1))
    first = store.elsewhere(plan="sha256:plan")

    assert first.step("again", away, schedule=Schedule(attempts=2, jitter_ms=0)) == 1
    with pytest.raises(StepFailed):
        first.step("once", Effect(failing(Transient("away"))), schedule=Schedule(attempts=1))
    with pytest.raises(AwakeableTimedOut):
        first.wait("approval", ttl_ms=1000)
    clock.advance(LEASE)
    with pytest.raises(ExecutionPinMismatch):
        store.open(plan="sha256:other")

    assert away.attempts == [1, 2]
    for described in store.here.profile.capabilities:
        store.here.profile.require(described)
    with pytest.raises(CapabilityUnwired):
        store.here.profile.require("time-machine")


@pytest.mark.clause("run.journal.guard-callback")
def test_a_callback_may_not_end_the_execution_that_admits_it(store: Store) -> None:
    execution = store.open(engine=store.engine(destinations=VENDOR))

    with pytest.raises(StepFailed) as failure:
        execution.step("send", Effect(execution.close), destination="vendor")

    assert isinstance(failure.value.failure, AdmittedOwnerMutation)
    owner = store.owner()
    assert owner is not None
    assert owner.attempt == execution.run_id


@pytest.mark.clause("run.journal.guard-callback")
def test_a_close_refused_inside_a_callback_is_granted_after_it(store: Store) -> None:
    execution = store.open(engine=store.engine(destinations=VENDOR))
    with pytest.raises(StepFailed):
        execution.step("send", Effect(execution.close), destination="vendor")

    execution.close()

    assert store.owner() is None
    assert store.run(execution.run_id).status is RunStatus.SUCCESS


@pytest.mark.clause("run.journal.guard-callback")
@pytest.mark.parametrize("scope", ["outer", "other"])
def test_a_callback_makes_no_call_to_a_destination_inside_its_own(store: Store, scope: str) -> None:
    engine = store.engine(destinations=VENDOR)
    executions = {name: store.open(name, engine=engine) for name in ("outer", "other")}
    effect = Effect()

    with pytest.raises(StepFailed) as failure:
        executions["outer"].step(
            "send",
            Effect(lambda: executions[scope].step("nested", effect, destination="vendor")),
            destination="vendor",
        )

    assert isinstance(failure.value.failure, EffectNested)
    assert effect.calls == 0


@pytest.mark.clause("run.journal.guard-callback")
def test_a_callback_may_record_a_step_that_calls_nobody_and_update_its_run(store: Store) -> None:
    execution = store.open(engine=store.engine(destinations=VENDOR))

    sent = execution.step("send", Effect(lambda: execution.step("within", Effect(1))), destination="vendor")

    assert sent == 1
    assert store.recorded(execution.execution_id) == ["send", "within"]


def test_a_callback_may_use_another_scope_once_its_own_has_returned(store: Store) -> None:
    engine = store.engine(destinations=VENDOR)
    first, second = store.open("first", engine=engine), store.open("second", engine=engine)

    first.step("send", Effect(), destination="vendor")
    second.step("send", Effect(), destination="vendor")
    first.close()

    assert store.here.owners.read("host:first") is None
