"""What makes a store in D1, what is looked at before work is admitted, and what binds the database to its bucket."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from d1.profile import cloudflare_d1
from d1.recovery import NAME
from engine.clock import SystemClock
from engine.corpus import layout
from engine.errors import (
    ExecutionRecoveryMismatch,
    ExecutionSchemaIncompatible,
    StorageCapabilityMissing,
    StorageProfileUnsupported,
)
from engine.profile import open_profile
from engine.sql import SCHEMA_VERSION, call, schema
from engine.storage import initialize, is_empty, preflight
from tests.conftest import ON_EDGE
from tests.stores import PROJECT, Store


def execute(store: Store, text: str) -> None:
    store.profile().database.binding.batch([{"sql": text, "params": []}], intent="write")  # type: ignore[attr-defined]


def refused(store: Store) -> ExecutionRecoveryMismatch:
    with pytest.raises(ExecutionRecoveryMismatch) as raised:
        store.engine()
    return raised.value


@pytest.mark.clause("run.journal.d1-profile")
def test_the_profile_keeps_state_in_d1_and_contents_in_r2(store):
    profile = store.profile()
    with store.open() as execution:
        execution.step("large", lambda _: "x" * 1_100_000)

    names = {name for (name,) in profile.database.run(call("list_tables"))[0]}

    assert {"owners", "runs", "journal", "awakeables", "cursors", "blobs"} <= names
    assert profile.database.run(call("unreferenced_blobs", older_than=2**52))[0] == [(store_blob(profile),)]
    assert [name for name in profile.objects.list("") if name.startswith("_runs/")]
    assert not list(store.root.rglob("*.sqlite"))


def store_blob(profile) -> str:
    ((digest, size),) = profile.database.binding.batch(
        [{"sql": "SELECT digest, bytes FROM blobs", "params": []}], intent="read"
    )[0]
    assert size > 1_100_000
    return str(digest)


@pytest.mark.clause("run.journal.d1-initialize")
def test_initialization_applied_twice_leaves_what_the_first_left(blank):
    profile = blank.profile()
    initialize(profile, project=PROJECT)
    before = (sorted(profile.database.run(call("read_meta"))[0]), profile.objects.get(NAME))

    initialize(profile, project=PROJECT)

    assert (sorted(profile.database.run(call("read_meta"))[0]), profile.objects.get(NAME)) == before
    preflight(profile, project=PROJECT)


@pytest.mark.clause("run.journal.d1-initialize")
def test_initialization_is_one_batch_behind_a_look_for_an_older_schema(blank):
    profile = blank.profile()

    initialize(profile, project=PROJECT)

    assert profile.database.binding.spent.round_trips == 2


@pytest.mark.clause("run.journal.execution-recovery", "run.journal.execution-schema")
def test_a_missing_table_is_refused_and_not_created(store):
    execute(store, "DROP TABLE awakeables")

    assert "the table awakeables missing" in str(refused(store))
    assert ("awakeables",) not in store.profile().database.run(call("list_tables"))[0]


@pytest.mark.clause("run.journal.execution-recovery")
def test_a_database_nobody_initialized_is_refused_and_stays_empty(blank):
    refused(blank)

    assert is_empty(blank.profile().database)


@pytest.mark.clause("run.journal.execution-schema")
def test_another_schema_is_refused(store):
    execute(store, "UPDATE meta SET value = '3' WHERE name = 'schema'")

    with pytest.raises(ExecutionSchemaIncompatible, match="schema 3, this executable supports"):
        store.engine()


@pytest.mark.clause("run.journal.execution-recovery")
def test_another_project_is_refused(store):
    with pytest.raises(ExecutionRecoveryMismatch, match=r"belongs to project .* give this one its own"):
        store.engine(project="other")


@pytest.mark.clause("run.journal.d1-recovery", "run.journal.execution-recovery")
def test_a_bucket_without_its_frontier_is_refused_and_none_is_written(store):
    store.profile().objects.delete([NAME])

    assert NAME in str(refused(store))
    assert store.profile().objects.get(NAME) is None


@pytest.mark.clause("run.journal.d1-recovery", "run.journal.execution-recovery")
@pytest.mark.parametrize("name", ["project", "schema", "generation"])
def test_a_bucket_bound_to_another_state_is_refused_naming_what_differs(store, name: str):
    objects = store.profile().objects
    bound = json.loads(objects.get(NAME))
    objects.put(NAME, json.dumps(bound | {name: "other"}).encode())

    assert f"its {name} is" in str(refused(store))
    assert "'other'" in str(refused(store))


@pytest.mark.clause("run.journal.d1-recovery")
def test_a_frontier_that_is_damaged_is_refused(store):
    store.profile().objects.put(NAME, b"{")

    assert "database and bucket part" in str(refused(store))


@pytest.mark.clause("run.journal.d1-recovery", "run.journal.execution-recovery")
def test_a_new_database_beside_an_old_bucket_is_bound_by_initialize_alone(store):
    profile = store.profile()
    names = [name for (name,) in profile.database.run(call("list_tables"))[0]]
    profile.database.binding.batch([{"sql": f"DROP TABLE {name}", "params": []} for name in names], intent="write")
    profile.database.run(*schema(*profile.tables), *(
        call("set_meta", name=name, value=value)
        for name, value in (("project", PROJECT), ("schema", str(SCHEMA_VERSION)), ("generation", "restored"))
    ))  # fmt: skip
    assert "its generation is 'restored'" in str(refused(store))

    initialize(profile, project=PROJECT)

    store.engine()


@pytest.mark.clause("run.journal.d1-recovery")
def test_the_frontier_is_no_table_of_the_corpus(store):
    assert not layout.usable(layout.table_of(NAME))


@pytest.mark.clause("run.journal.storage-incomplete")
def test_a_profile_without_its_binding_is_incomplete(tmp_path):
    with pytest.raises(StorageCapabilityMissing, match="CONTEXTFUL_BINDING_URL is not set"):
        open_profile(ON_EDGE, tmp_path, clock=SystemClock(), environ={})


@pytest.mark.clause("run.journal.storage-incomplete")
def test_every_wrong_setting_is_named_at_once(tmp_path):
    environ = {
        "CONTEXTFUL_BINDING_URL": "store.internal",
        "CONTEXTFUL_BINDING_READ_TIMEOUT": "16",
        "CONTEXTFUL_BINDING_WRITE_TIMEOUT": "soon",
    }

    with pytest.raises(StorageCapabilityMissing) as raised:
        cloudflare_d1(tmp_path, clock=SystemClock(), environ=environ)

    assert "'store.internal' and must be an address" in str(raised.value)
    assert "'16' and must be a number of seconds, at most 15" in str(raised.value)
    assert "'soon' and must be a number of seconds" in str(raised.value)


@pytest.mark.clause("run.journal.storage-incomplete")
@pytest.mark.parametrize("url", ["http://", "ftp://store.internal", "http://store.internal:99999", "http://[x", "x"])
def test_an_address_that_can_be_none_is_named(tmp_path, url: str):
    with pytest.raises(StorageCapabilityMissing, match=r"must be an address such as http://store.internal"):
        cloudflare_d1(tmp_path, clock=SystemClock(), environ={"CONTEXTFUL_BINDING_URL": url})


@pytest.mark.clause("run.journal.storage-incomplete")
@pytest.mark.parametrize("part", ["database", "journal", "admission", "awakeables", "objects"])
def test_a_profile_that_lacks_a_part_admits_nothing(store, part: str):
    with pytest.raises(StorageCapabilityMissing, match=part):
        replace(store.profile(), **{part: None}).require_whole()


@pytest.mark.clause("run.journal.storage-unsupported")
def test_an_unknown_profile_selects_no_other(tmp_path):
    with pytest.raises(StorageProfileUnsupported, match="cloudflare-d1"):
        open_profile("cloudflare-d2", tmp_path, clock=SystemClock(), environ={"CONTEXTFUL_BINDING_URL": "http://x"})


@pytest.mark.clause("run.journal.d1-profile")
def test_the_workers_clock_judges_unless_another_is_injected(store):
    asked = []
    for clock in (SystemClock(), SystemClock(offset_ms=3_600_000), store.clock):
        profile = store.profile(clock=clock)
        profile.database.now()
        asked.append(profile.database.binding.spent.round_trips)

    assert asked == [1, 0, 0]
