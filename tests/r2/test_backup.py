"""A backup takes the execution state and names what it goes with; a restore is whole, or is refused."""

from __future__ import annotations

import json
import shutil
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from engine.awakeables import SqlAwakeables
from engine.backup import backup, restore
from engine.dump import rows, tables
from engine.errors import (
    BackupUnusable,
    CapabilityUnwired,
    ExecutionRecoveryMismatch,
    ExecutionSchemaIncompatible,
    StoreInUse,
)
from engine.guards.admission import SqlAdmission
from engine.journal import SqlJournal
from engine.local.sqlite import SqliteDatabase
from engine.profile import Profile, open_profile
from engine.sql import TABLES, call, schema
from engine.storage import initialize, preflight
from r2.blobs import BucketBlobs
from r2.names import blob
from r2.objects import BucketObjects
from tests.clocks import SettableClock
from tests.stores import MIB, PROJECT, Effect, Store
from tests.unit.corpus.conftest import Corpus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from r2.keys import Keys

LARGE = b"x" * (MIB + 1)
MARKER, PART = "t/commits/000000000001.json", "t/parts/r-0/000000.parquet"
DAY = 86_400_000


@pytest.fixture
def worked(tmp_path: Path) -> Store:
    """A store with a finished run and a pending one that has recorded a small and a large value."""
    store = Store("sqlite", tmp_path / "project", SettableClock(), dict).initialized()
    store.open("done").close()
    pending = store.open("pending")
    pending.step("small", Effect("little"))
    pending.step("large", Effect(LARGE))
    corpus = Corpus(store.root)
    corpus.land("r-0", [{"id": 1, "v": "a"}])
    corpus.objects.put("t/parts/r-9/000000.parquet", b"of a run that crashed")
    return store


@pytest.fixture
def at_rest(worked: Store) -> Profile:
    """The same, its engines gone."""
    worked.close()
    worked.clock.advance(DAY)
    return open_profile("sqlite", worked.root, clock=worked.clock, environ={})


@pytest.fixture
def beside(at_rest: Profile, tmp_path: Path) -> Callable[[], Profile]:
    """Opens a store that holds the objects alone, as after the loss of the database."""
    shutil.copytree(tmp_path / "project" / "corpus", tmp_path / "other" / "corpus")
    return lambda: open_profile("sqlite", tmp_path / "other", clock=SettableClock(), environ={})


def everything(profile: Profile) -> dict[str, list[tuple[Any, ...]]]:
    return {table.name: list(rows(profile.database, table)) for table in tables(profile.tables) if table.name != "meta"}


@pytest.mark.clause("run.journal.d1-backup")
def test_what_was_backed_up_is_restored_row_by_row(at_rest: Profile, beside: Any, tmp_path: Path) -> None:
    taken = backup(at_rest, tmp_path / "backup", project=PROJECT)
    other = beside()

    restored = restore(other, tmp_path / "backup", project=PROJECT)

    assert restored == taken
    assert (taken.rows["journal"], taken.rows["blob_contents"], taken.objects) == (2, 1, 2)
    assert everything(other) == everything(at_rest)
    preflight(other, project=PROJECT)


@pytest.mark.clause("run.journal.d1-backup")
def test_a_restored_execution_goes_on_without_paying_again(at_rest: Profile, beside: Any, tmp_path: Path) -> None:
    backup(at_rest, tmp_path / "backup", project=PROJECT)
    restore(beside(), tmp_path / "backup", project=PROJECT)
    effect = Effect("again")
    clock = SettableClock()
    clock.advance(DAY)
    store = Store("sqlite", tmp_path / "other", clock, dict)

    execution = store.open("pending")

    assert execution.step("small", effect) == "little"
    assert execution.step("large", effect) == LARGE
    assert effect.calls == 0
    store.close()


@pytest.mark.clause("run.journal.d1-backup")
def test_a_backup_names_project_schema_identity_and_frontier(at_rest: Profile, tmp_path: Path) -> None:
    backup(at_rest, tmp_path / "backup", project=PROJECT)

    header = json.loads((tmp_path / "backup" / "backup.json").read_text())
    frontier = [json.loads(line) for line in (tmp_path / "backup" / "objects.jsonl").read_text().splitlines()]
    assert (header["project"], header["identity"]["project"]) == (PROJECT, PROJECT)
    assert header["identity"]["generation"]
    assert header["schema"]
    assert set(header["rows"]) == {table.name for table in tables(TABLES)}
    assert [entry["object"] for entry in frontier] == [MARKER, PART, MARKER]
    assert "sha256" in frontier[2]


def test_every_table_of_the_schema_is_backed_up_whole() -> None:
    texts = [each.statement.text for each in schema(*TABLES) if each.statement.text.startswith("CREATE TABLE")]
    opened = sqlite3.connect(":memory:")
    for text in texts:
        opened.execute(text)
    for table in tables(TABLES):
        facts = opened.execute(f"PRAGMA table_info({table.name})").fetchall()
        assert table.columns == tuple(fact[1] for fact in facts)
        assert table.key == tuple(fact[1] for fact in sorted(facts, key=lambda fact: fact[5]) if fact[5])
    names = {name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert names - {table.name for table in tables(TABLES)} == {"refusals"}  # it never holds a row
    opened.close()


@pytest.mark.clause("run.journal.d1-backup")
def test_while_an_engine_is_at_work_nothing_is_backed_up(worked: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreInUse) as refusal:
        backup(worked.profile(), tmp_path / "backup", project=PROJECT)

    assert refusal.value.exit_code == 75
    assert not (tmp_path / "backup").exists()
    worked.close()


@pytest.mark.clause("run.journal.d1-backup")
def test_an_engine_that_is_opened_meanwhile_spoils_the_backup(at_rest: Profile, tmp_path: Path) -> None:
    listed = at_rest.objects.list

    def opening(prefix: str) -> Any:
        at_rest.database.run(call("register_holder", holder="h-2", pid=1, boot_id="b", lease_ms=1))
        return listed(prefix)

    at_rest.objects.list = opening  # type: ignore[method-assign]

    with pytest.raises(StoreInUse):
        backup(at_rest, tmp_path / "backup", project=PROJECT)
    assert not (tmp_path / "backup" / "backup.json").exists()


@pytest.mark.clause("run.journal.d1-backup", "run.journal.d1-recovery")
@pytest.mark.parametrize("name", [MARKER, PART])
def test_beside_objects_that_are_gone_nothing_is_restored(at_rest: Profile, beside: Any, tmp_path: Path,
                                                         name: str) -> None:  # fmt: skip
    backup(at_rest, tmp_path / "backup", project=PROJECT)
    other = beside()
    other.objects.delete([name])

    with pytest.raises(ExecutionRecoveryMismatch, match=name):
        restore(other, tmp_path / "backup", project=PROJECT)
    assert not other.database.run(call("list_tables"))[0]


@pytest.mark.clause("run.journal.d1-backup")
def test_beside_another_newest_marker_nothing_is_restored(at_rest: Profile, beside: Any, tmp_path: Path) -> None:
    backup(at_rest, tmp_path / "backup", project=PROJECT)
    other = beside()
    other.objects.put(MARKER, b"of another history")

    with pytest.raises(ExecutionRecoveryMismatch, match="another content"):
        restore(other, tmp_path / "backup", project=PROJECT)


@pytest.mark.clause("run.journal.d1-backup")
def test_a_store_that_holds_something_is_not_restored_into(at_rest: Profile, beside: Any, tmp_path: Path) -> None:
    backup(at_rest, tmp_path / "backup", project=PROJECT)
    other = beside()
    initialize(other, project=PROJECT)

    with pytest.raises(ExecutionRecoveryMismatch, match=r"empty store only.* holds nothing"):
        restore(other, tmp_path / "backup", project=PROJECT)


@pytest.mark.clause("run.journal.d1-backup", "run.journal.execution-recovery")
def test_an_interrupted_restore_admits_nothing_and_is_finished_by_another(
    at_rest: Profile, beside: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup(at_rest, tmp_path / "backup", project=PROJECT)
    other = beside()

    def cut(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("engine.backup.initialize", cut)
        with pytest.raises(KeyboardInterrupt):
            restore(other, tmp_path / "backup", project=PROJECT)
    initialize(other, project=PROJECT)  # as a user might who finds no schema
    with pytest.raises(ExecutionRecoveryMismatch, match="interrupted"):
        preflight(other, project=PROJECT)

    restore(other, tmp_path / "backup", project=PROJECT)

    preflight(other, project=PROJECT)
    assert everything(other) == everything(at_rest)


@pytest.mark.parametrize("spoiled", ["header", "table", "frontier", "nothing"])
def test_a_backup_that_is_not_whole_is_refused(at_rest: Profile, beside: Any, tmp_path: Path, spoiled: str) -> None:
    folder = tmp_path / "backup"
    if spoiled != "nothing":
        backup(at_rest, folder, project=PROJECT)
    if spoiled == "header":
        (folder / "backup.json").unlink()
    elif spoiled != "nothing":
        file = folder / ("tables/owners.jsonl" if spoiled == "table" else "objects.jsonl")
        file.write_text(file.read_text() + "[]\n")

    with pytest.raises(BackupUnusable):
        restore(beside(), folder, project=PROJECT)


def test_a_backup_of_another_project_or_schema_is_refused(at_rest: Profile, beside: Any, tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    backup(at_rest, folder, project=PROJECT)
    other = beside()

    with pytest.raises(ExecutionRecoveryMismatch, match="of project 'demo'"):
        restore(other, folder, project="another")
    header = json.loads((folder / "backup.json").read_text())
    (folder / "backup.json").write_text(json.dumps(header | {"schema": 1}))
    with pytest.raises(ExecutionSchemaIncompatible):
        restore(other, folder, project=PROJECT)


def test_a_folder_with_something_in_it_is_not_written_to(at_rest: Profile, tmp_path: Path) -> None:
    with pytest.raises(BackupUnusable, match="not empty"):
        backup(at_rest, tmp_path, project=PROJECT)


@pytest.mark.clause("run.journal.unwired-capability")
def test_work_that_is_not_kept_in_the_database_is_not_backed_up(tmp_path: Path) -> None:
    profile = open_profile("file", tmp_path / "project", clock=SettableClock(), environ={})
    initialize(profile, project=PROJECT)

    with pytest.raises(CapabilityUnwired, match="backup"):
        backup(profile, tmp_path / "backup", project=PROJECT)
    assert not (tmp_path / "backup").exists()
    profile.close()


@pytest.mark.clause("run.journal.d1-backup", "run.journal.d1-blob")
def test_blobs_in_a_bucket_are_part_of_the_frontier(keys: Keys, tmp_path: Path) -> None:
    def opened(name: str) -> Profile:
        database = SqliteDatabase(tmp_path / name, clock=SettableClock())
        journal = SqlJournal(database, BucketBlobs(keys, database))
        objects = BucketObjects(keys, tmp_path / "copies")
        parts: dict[str, Any] = {"journal": journal, "awakeables": SqlAwakeables(database, journal), "objects": objects,
                                 "admission": SqlAdmission(database, journal)}  # fmt: skip
        return Profile("bucket", database, **parts, scratch=tmp_path, capabilities=frozenset(), tables=TABLES,
                       close=database.close)  # fmt: skip

    first, second = opened("first"), opened("second")
    initialize(first, project=PROJECT)
    content = LARGE + tmp_path.name.encode()
    reference = first.journal.place(content)["digest"]  # type: ignore[attr-defined]
    first.database.run(call("open_owner", scope="s", pins="{}", plan_ref="p", input_hash=None, run_id="r", holder="h",
                            execution_id="x"))  # fmt: skip
    claim = {"execution_id": "x", "step": "s", "input": "i", "scope": "s", "run_id": "r", "holder": "h", "claim": "c"}
    placed = {"value": None, "digest": reference, "bytes": len(content)}
    first.database.run(call("claim_entry", **claim), call("record_entry", **claim, **placed))

    taken = backup(first, tmp_path / "backup", project=PROJECT)
    assert taken.blobs == 1
    assert reference is not None
    keys.delete(blob(reference))
    with pytest.raises(ExecutionRecoveryMismatch, match=reference):
        restore(second, tmp_path / "backup", project=PROJECT)
    BucketBlobs(keys, first.database).put(content)

    assert restore(second, tmp_path / "backup", project=PROJECT) == taken
    for profile in (first, second):
        profile.close()
