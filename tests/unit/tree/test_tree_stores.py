"""The journal, its waits and its blobs as files: what is on the disk when, and what a crash or a full disk leaves."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import StorageBusy, StorageUnusable
from engine.local.tree import tree as trees
from engine.local.tree.tree import Tree
from engine.shapes import Awakeable, AwakeableState
from tests.stores import LEASE, MIB, Died, Effect, Store, key

if TYPE_CHECKING:
    from engine.execution.held import Held
    from tests.clocks import SettableClock

pytestmark = pytest.mark.parametrize("blank", ["file"], indirect=True)
LARGE = b"x" * (MIB + 1)


@dataclass
class Syncs:
    """The paths that were synced, in order."""

    paths: list[Path]

    def names(self) -> list[str]:
        return [path.suffix or path.name for path in self.paths]


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    seen = Syncs([])

    def note(descriptor: int) -> None:
        seen.paths.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fdatasync", note)
    monkeypatch.setattr(os, "fsync", note)
    return seen


def dies(*_: object) -> None:
    raise Died


def entry_file(store: Store, held: Held, step: str = "one") -> Path:
    return Tree(store.root).entry(key(held, step))


def claimed(store: Store, held: Held, step: str = "one") -> None:
    store.here.profile.journal.claim(key(held, step), attempt=held.attempt, token="t")


def record(store: Store, held: Held, value: bytes, step: str = "one") -> None:
    store.here.profile.journal.record(key(held, step), attempt=held.attempt, token="t", value=value)


def test_a_claim_waits_for_no_disk_and_a_record_for_its_file_and_its_name(store: Store, syncs: Syncs) -> None:
    held = store.held()
    claimed(store, held, "the first makes the folder")
    syncs.paths.clear()

    claimed(store, held)
    after_claim = syncs.names()
    record(store, held, b"1")

    assert after_claim == []
    assert syncs.names() == [".incoming", held.attempt.execution_id]


def test_a_new_executions_folder_is_synced_into_the_one_above_it(store: Store, syncs: Syncs) -> None:
    held = store.held()

    claimed(store, held)

    assert syncs.paths[-1] == store.root / "executions"


def test_a_takeover_keeps_the_count_of_attempts_on_the_disk(store: Store, syncs: Syncs, clock: SettableClock) -> None:
    dead = store.held(engine=store.stalled())
    journal = dead.steps.journal
    journal.claim(key(dead), attempt=dead.attempt, token="t")
    journal.renew(key(dead), token="t", attempts=3, next_attempt_at=7)
    clock.advance(LEASE)
    taker = store.held()
    syncs.paths.clear()

    entry = store.here.profile.journal.claim(key(taker), attempt=taker.attempt, token="u")

    assert (entry.attempts, entry.next_attempt_at) == (3, 7)
    assert syncs.names() == [".incoming", taker.attempt.execution_id]


def test_a_claim_that_a_loss_of_power_emptied_is_claimed_again(store: Store) -> None:
    held = store.held()
    claimed(store, held)
    entry_file(store, held).write_bytes(b"")

    entry = store.here.profile.journal.claim(key(held), attempt=held.attempt, token="again")

    assert (entry.claim, entry.recorded) == ("again", False)


@pytest.mark.clause("run.journal.step-output")
@pytest.mark.parametrize("damage", [lambda c: c[:-1], lambda c: b"\0" * len(c), lambda c: b"{}", lambda c: c + b"x"])
def test_a_damaged_entry_is_an_error_and_never_an_unclaimed_step(store: Store, damage: Any) -> None:
    held = store.held()
    claimed(store, held)
    record(store, held, b"recorded")
    path = entry_file(store, held)
    path.write_bytes(damage(path.read_bytes()))

    with pytest.raises(StorageUnusable) as failure:
        claimed(store, held)

    assert failure.value.place == str(path)


def test_what_a_crash_left_on_its_way_is_no_entry_and_goes_with_the_execution(store: Store) -> None:
    execution = store.open()
    execution.step("one", Effect())
    folder = Tree(store.root).execution(execution.execution_id)
    (folder / "half.incoming").write_bytes(b'{"step":"ha')

    steps = store.recorded(execution.execution_id)
    execution.close()

    assert steps == ["one"]
    assert not folder.exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_names_the_file_and_leaves_the_claim(
    store: Store, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    held = store.held()
    claimed(store, held)

    def full(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fdatasync", full)
    with pytest.raises(StorageUnusable) as failure:
        record(store, held, b"1")
    monkeypatch.undo()

    assert failure.value.place == str(entry_file(store, held))
    record(store, held, b"2")
    assert store.recorded(held.attempt.execution_id) == ["one"]


def test_a_file_in_the_way_of_a_folder_is_named(store: Store) -> None:
    (store.root / "executions").write_text("in the way")
    held = store.held()

    with pytest.raises(StorageUnusable) as failure:
        claimed(store, held)

    assert failure.value.place.startswith(str(store.root / "executions"))


@pytest.mark.clause("run.journal.blob-write")
def test_a_half_written_blob_never_has_a_name(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    held = store.held()
    claimed(store, held)

    monkeypatch.setattr(os, "fdatasync", dies)
    with pytest.raises(Died):
        record(store, held, LARGE)
    monkeypatch.undo()

    names = [path.name for path in (store.root / "blobs").iterdir()]
    assert all(name.startswith(".") for name in names)
    record(store, held, LARGE)
    (entry,) = store.entries(held.attempt.execution_id)
    assert store.here.profile.journal.value(entry) == LARGE


@pytest.mark.clause("run.suspend.resume-is-a-step-output")
def test_a_crash_between_a_payloads_record_and_its_waits_end_is_healed_by_the_record(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    awakeables: Any = store.here.profile.awakeables
    wait = Awakeable("t", store.open().execution_id, "approval", created_at=0, deadline=10)
    awakeables.mint(wait)

    monkeypatch.setattr(awakeables, "_write", dies)
    with pytest.raises(Died):
        awakeables.resolve("t", b"1", at=5)
    monkeypatch.undo()

    assert awakeables.read("t").state is AwakeableState.RESOLVED
    assert awakeables.pending(wait.execution_id, at=5) == []
    assert not awakeables.time_out("t", at=11)
    assert awakeables.resolve("t", b"1", at=11) == b"1"


@pytest.mark.clause("run.journal.collection")
def test_a_crash_halfway_through_the_deletes_leaves_the_rest_to_the_next_open(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = store.open()
    execution.step("one", Effect())
    awakeables = store.here.profile.awakeables
    awakeables.mint(Awakeable("t", execution.execution_id, "approval", created_at=0, deadline=10))
    pointers = list((store.root / "awakeables").iterdir())

    monkeypatch.setattr("engine.local.tree.journal.shutil.rmtree", dies)
    with pytest.raises(Died):
        execution.close()
    monkeypatch.undo()
    store.elsewhere("another scope")

    assert len(pointers) == 1
    assert list((store.root / "awakeables").iterdir()) == []
    assert not Tree(store.root).execution(execution.execution_id).exists()


def test_a_lock_that_a_stopped_process_holds_is_given_up_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    held = store.held()
    monkeypatch.setattr(trees, "PATIENCE_S", 0.05)

    with Tree(store.root).changing(held.attempt.execution_id), pytest.raises(StorageBusy) as busy:
        claimed(store, held)

    assert str(store.root / "locks") in busy.value.file
