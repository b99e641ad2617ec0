"""What the SQLite stores promise beyond what every store does: one file, one connection, one sync a step."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.clock import SystemClock
from engine.errors import AwakeableTimedOut, BlobMissing, Refused
from engine.host import Engine, Settings
from engine.ports import Call, Statement
from engine.schedule import Schedule
from engine.shapes import Awakeable, AwakeableState
from tests import children
from tests.stores import LEASE, MIB, PROJECT, Effect, Store, died, key

if TYPE_CHECKING:
    from engine.execution import call

pytestmark = pytest.mark.parametrize("blank", ["sqlite"], indirect=True)


def ask(store: Store, text: str) -> list[tuple[object, ...]]:
    """The rows of a statement of the test's own."""
    return store.here.profile.database.run(Call(Statement("ask", text, (), reads=True, durable=False), {}))[0]


def tell(store: Store, text: str) -> None:
    store.here.profile.database.run(Call(Statement("tell", text, (), reads=False, durable=True), {}))


@pytest.fixture(scope="session")
def sync_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that logs every sync of the process it is preloaded into."""
    library = tmp_path_factory.mktemp("sync-log") / "sync_log.so"
    source = Path(children.__file__).with_name("sync_log.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def watched(name: str, store: Store, library: Path) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Run a child that ends by its own SIGKILL; return it with the log of its syncs."""
    store.close()
    log = store.root.parent / "syncs"
    environ = {"LD_PRELOAD": str(library), "SYNC_LOG": str(log)}
    child = children.run(name, store.profile_name, str(store.root), environ=environ)
    assert child.returncode == -signal.SIGKILL, child.stderr
    return child, log


@pytest.mark.clause("run.journal.sqlite-stores")
def test_journal_blobs_and_waits_are_in_one_file_in_write_ahead_mode(store: Store) -> None:
    execution = store.open()
    execution.step("large", Effect(b"x" * (MIB + 1)))
    execution.step("small", Effect())
    wait = Awakeable("t", execution.execution_id, "approval", created_at=0, deadline=1 << 50)
    store.here.profile.awakeables.mint(wait)

    counts = [ask(store, f"SELECT COUNT(*) FROM {table}")[0][0] for table in ("journal", "blob_contents", "awakeables")]

    assert counts == [2, 1, 1]
    assert ask(store, "PRAGMA journal_mode") == [("wal",)]
    ((digest, named),) = ask(store, "SELECT digest, (SELECT digest FROM journal WHERE digest IS NOT NULL) FROM blobs")
    assert digest == named
    machine = {path.name for path in store.root.iterdir()} - {"corpus"}
    assert machine == {"state.sqlite", "state.sqlite-wal", "state.sqlite-shm"}


@pytest.mark.clause("run.journal.sqlite-stores")
def test_every_store_of_an_engine_goes_over_one_connection(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect
    opened: list[sqlite3.Connection] = []

    def counted(*where: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*where, **options))
        return opened[-1]

    monkeypatch.setattr("engine.local.sqlite.sqlite3.connect", counted)
    execution = store.open(engine=store.engine())
    execution.step("large", Effect(b"x" * (MIB + 1)))
    with pytest.raises(AwakeableTimedOut):
        execution.wait("approval", ttl_ms=1)

    assert len(opened) == 1


@pytest.mark.clause("run.journal.sqlite-stores")
def test_a_resolution_and_its_record_commit_together_or_not_at_all(store: Store) -> None:
    execution = store.open()
    awakeables = store.here.profile.awakeables
    awakeables.mint(Awakeable("t", execution.execution_id, "approval", created_at=0, deadline=1 << 50))
    tell(
        store,
        "CREATE TRIGGER no_resume BEFORE INSERT ON journal WHEN NEW.run_id = 'awakeable' "
        "BEGIN SELECT RAISE(ABORT, 'no resume'); END",
    )

    with pytest.raises(Refused, match="no resume"):
        awakeables.resolve("t", b"1", at=1)

    assert awakeables.read("t").state is AwakeableState.PENDING
    tell(store, "DROP TRIGGER no_resume")
    assert awakeables.resolve("t", b"1", at=1) == b"1"


@pytest.mark.clause("run.journal.one-cutoff", "run.journal.sqlite-stores")
def test_the_row_of_a_wait_names_the_blob_of_its_payload(store: Store) -> None:
    execution = store.open()
    awakeables = store.here.profile.awakeables
    awakeables.mint(Awakeable("t", execution.execution_id, "approval", created_at=0, deadline=1 << 50))

    awakeables.resolve("t", b"x" * (MIB + 1), at=1)

    ((of_the_wait, of_the_step),) = ask(store, "SELECT a.digest, j.digest FROM awakeables AS a, journal AS j")
    assert of_the_wait == of_the_step == hashlib.sha256(b"x" * (MIB + 1)).hexdigest()


@pytest.mark.clause("run.journal.missing-blob")
def test_a_blob_that_rotted_is_missing_and_no_other_value(store: Store) -> None:
    execution = store.open()
    execution.step("large", Effect(b"x" * (MIB + 1)))
    (entry,) = store.entries(execution.execution_id)
    tell(store, "UPDATE blob_contents SET content = x'00'")

    with pytest.raises(BlobMissing) as missing:
        store.here.profile.journal.value(entry)

    assert missing.value.reference == entry.blob


@pytest.mark.clause("run.journal.sqlite-write-lock")
def test_writers_of_one_key_over_many_connections_serialize_and_none_is_locked_out(store: Store) -> None:
    held = store.held()
    begun = threading.Barrier(8)
    sent: list[str] = []

    def effect(call: call.Call) -> bytes:
        sent.append(call.key.step)
        return call.key.step.encode()

    def write(number: int) -> list[bytes | None]:
        steps = replace(held.steps, journal=store.profile().journal)
        begun.wait(10)
        return [steps.run(key(held, f"s{n}"), effect, schedule=Schedule(attempts=1)).value for n in range(10)]

    with store.clock.standing(), ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(write, range(8)))

    assert answers == [[f"s{n}".encode() for n in range(10)]] * 8
    assert sorted(sent) == [f"s{n}" for n in range(10)]


@pytest.mark.clause("run.journal.sqlite-write-lock")
def test_processes_that_write_one_file_at_once_never_meet_a_locked_database(store: Store) -> None:
    with ThreadPoolExecutor(4) as pool:
        ended = list(
            pool.map(
                lambda number: children.run("records_fifty_steps", "sqlite", str(store.root), f"job-{number}"), range(4)
            )
        )

    assert [(child.returncode, child.stderr) for child in ended] == [(0, "")] * 4
    assert store.here.owners.all() == []


@pytest.mark.clause("run.journal.sqlite-stores", "run.journal.ledger-settles-first")
def test_a_step_costs_one_sync_of_the_log_whatever_it_asks_outside(store: Store, sync_log: Path) -> None:
    child, _ = watched("prints_what_steps_sync", store, sync_log)

    assert json.loads(child.stdout) == {"plain": ["state.sqlite-wal"], "asking": ["state.sqlite-wal"], "replayed": []}


@pytest.mark.clause("run.journal.sqlite-stores", "run.callback-guard.acquire", "run.callback-guard.release")
def test_a_guarded_step_costs_a_sync_before_it_sends_and_one_after(store: Store, sync_log: Path) -> None:
    child, _ = watched("prints_what_guarded_steps_sync", store, sync_log)

    assert json.loads(child.stdout) == {"before": ["state.sqlite-wal"], "after": ["state.sqlite-wal"]}


@pytest.mark.clause("run.journal.step-output", "run.journal.idempotency-key")
def test_a_log_cut_at_its_last_sync_keeps_every_record_and_repeats_the_claim_under_its_key(
    store: Store, sync_log: Path
) -> None:
    child, log = watched("dies_with_a_claim_unsynced", store, sync_log)
    lines = [line.split(" ", 1) for line in log.read_text().splitlines()]
    synced = max(int(size) for size, path in lines if path.endswith("state.sqlite-wal"))
    wal = store.root / "state.sqlite-wal"
    assert wal.stat().st_size > synced

    os.truncate(wal, synced)
    (store.root / "state.sqlite-shm").unlink()
    clock = SystemClock(offset_ms=LEASE + 1)
    engine = Engine(store.profile(clock=clock), Settings(PROJECT, "site-1"), clock=clock)
    execution = store.open(engine=engine)
    recorded = [entry.key.step for entry in engine.profile.journal.entries(execution.execution_id)]
    again = Effect("sent again")

    assert recorded == ["one", "two"]
    assert [execution.step("one", died), execution.step("two", died)] == [1, 2]
    assert execution.step("three", again) == "sent again"
    assert again.keys == [child.stdout]
    engine.close()
