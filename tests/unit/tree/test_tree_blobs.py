"""Blobs as files: one that rotted, and a sweep beside those that place them."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import BlobMissing, StorageBusy
from engine.local.tree import journal as journals
from engine.local.tree import tree as trees
from engine.local.tree.blobs import TreeBlobs
from engine.local.tree.tree import Tree
from engine.shapes import BlobRef
from tests.unit.tree.test_tree_stores import LARGE, claimed, record

if TYPE_CHECKING:
    from tests.clocks import SettableClock
    from tests.stores import Store

pytestmark = pytest.mark.parametrize("blank", ["file"], indirect=True)


@pytest.mark.clause("run.journal.missing-blob")
def test_a_blob_that_rotted_is_missing_until_its_content_is_put_again(store: Store, clock: SettableClock) -> None:
    blobs = TreeBlobs(Tree(store.root), clock)
    reference = blobs.put(LARGE)
    path = store.root / "blobs" / reference.sha256
    path.write_bytes(LARGE[:-1])

    with pytest.raises(BlobMissing):
        blobs.get(reference)
    blobs.put(LARGE)

    assert blobs.get(reference) == LARGE
    assert reference == BlobRef(hashlib.sha256(LARGE).hexdigest(), len(LARGE))


@pytest.mark.clause("run.journal.blob-sweep")
def test_a_sweep_takes_what_an_interrupted_write_left_once_it_is_old(store: Store, clock: SettableClock) -> None:
    blobs = TreeBlobs(Tree(store.root), clock)
    blobs.put(LARGE)
    left = store.root / "blobs" / ".left"
    left.write_bytes(b"half")
    os.utime(left, (0, 0))

    store.here.profile.journal.sweep(older_than=clock.now())

    assert not left.exists()
    assert len(list((store.root / "blobs").iterdir())) == 1


def test_sweeping_waits_for_whoever_is_placing_a_blob(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "PATIENCE_S", 0.05)

    with Tree(store.root).placing(), pytest.raises(StorageBusy):
        store.here.profile.journal.sweep(older_than=1 << 50)


@pytest.mark.clause("run.journal.blob-sweep")
def test_a_long_sweep_lets_whoever_places_a_blob_in_between_two_portions(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three blobs in portions of one: a writer comes in behind each, and what it has placed stays."""
    journal: Any = store.here.profile.journal
    held, placed = store.held(), list[str]()
    for number in range(3):
        with journal.placed(b"%d" % number + LARGE):
            pass

    class Between:
        def pause(self) -> None:
            name = f"step {len(placed)}"
            claimed(store, held, name)
            record(store, held, name.encode() + LARGE, name)
            placed.append(name)

    monkeypatch.setattr(trees, "PATIENCE_S", 0.05)
    monkeypatch.setattr(journals, "PORTION", 1)
    monkeypatch.setattr(journals, "pauses", lambda **_: Between())

    assert len(journal.sweep(older_than=store.clock.now() + 1)) == 3

    entries = store.entries(held.attempt.execution_id)
    assert [entry.key.step for entry in entries] == placed == ["step 0", "step 1", "step 2"]
    assert all(journal.value(entry).startswith(entry.key.step.encode()) for entry in entries)


@pytest.mark.clause("run.journal.blob-sweep")
def test_only_a_value_that_needs_a_blob_waits_for_a_sweep(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    held = store.held()
    claimed(store, held)
    claimed(store, held, "small")
    monkeypatch.setattr(trees, "PATIENCE_S", 0.05)

    with Tree(store.root).sweeping():
        record(store, held, b"1", "small")
        with pytest.raises(StorageBusy):
            record(store, held, LARGE)

    record(store, held, LARGE)
    assert store.recorded(held.attempt.execution_id) == ["one", "small"]
