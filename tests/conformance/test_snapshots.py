"""Applying a manifest: numbered, compared with what stands, and won by one of two who apply at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine import snapshots
from engine.errors import ManifestSnapshotSuperseded
from engine.pipeline.declaration import FileSource, Manifest, Pipeline, Table
from engine.pipeline.manifest.hashing import hashed
from engine.schedule import Schedule
from engine.secrets import SecretGuard
from engine.snapshots import Change, apply, current


def table(name: str, **declared) -> Table:
    return hashed(Table(name, "shop", FileSource(f"{name}.csv", Path("/work")), content_hash="", **declared))


def manifest(*tables: Table, folder: str = "/work") -> Manifest:
    path = Path(folder)
    return Manifest(path / "contextful.toml", "demo", path / ".contextful", "laptop", None, (Pipeline("shop", tables),))


ORDERS, USERS = table("orders"), table("users")
BARE = SecretGuard({})


def test_the_first_apply_is_number_one_and_adds_every_table(store, clock):
    done = apply(store.here.profile.database, manifest(ORDERS), by="ada", guard=BARE)

    assert (done.snapshot.number, done.snapshot.applied_by, done.snapshot.applied_at) == (1, "ada", clock.now())
    assert done.changes == (Change("orders", "added", None, ORDERS.content_hash),)
    assert current(store.profile().database) == done.snapshot


def test_what_stands_already_is_applied_once(store):
    database = store.here.profile.database
    first = apply(database, manifest(ORDERS), by="ada", guard=BARE)

    again = apply(database, manifest(ORDERS, folder="/elsewhere"), by="bob", guard=BARE)

    assert (again.snapshot, again.changes, again.fresh) == (first.snapshot, (), False)


def test_changes_are_told_table_by_table(store):
    database = store.here.profile.database
    apply(database, manifest(ORDERS, USERS), by="ada", guard=BARE)
    keyed, patient = table("orders", primary_key=("id",)), replace(USERS, schedule=Schedule(attempts=9))

    moved = apply(database, manifest(keyed, patient), by="ada", guard=BARE)
    removed = apply(database, manifest(keyed), by="ada", guard=BARE)

    assert moved.snapshot.number == 2
    assert moved.changes == (
        Change("orders", "changed", ORDERS.content_hash, keyed.content_hash),
        Change("users", "adjusted", USERS.content_hash, USERS.content_hash),
    )
    assert removed.changes == (Change("users", "removed", USERS.content_hash, None),)


@pytest.fixture
def meanwhile(monkeypatch):
    """Let another operator apply between the look at what stands and the write."""

    def between(act):
        looked = snapshots.current

        def look(database):
            monkeypatch.setattr(snapshots, "current", looked)
            found = looked(database)
            act()
            return found

        monkeypatch.setattr(snapshots, "current", look)

    return between


def test_of_two_who_apply_at_once_one_wins_and_the_other_is_told_the_newer_number(store, meanwhile):
    database, elsewhere = store.here.profile.database, store.profile().database
    apply(database, manifest(ORDERS), by="ada", guard=BARE)
    meanwhile(lambda: apply(elsewhere, manifest(USERS), by="bob", guard=BARE))

    with pytest.raises(ManifestSnapshotSuperseded, match="snapshot 2 was applied by bob") as refusal:
        apply(database, manifest(ORDERS, USERS), by="ada", guard=BARE)

    assert (refusal.value.number, refusal.value.standing) == (2, 1)
    standing = current(database)
    assert standing is not None
    assert (standing.number, list(standing.tables)) == (2, ["users"])


def test_two_who_apply_the_same_at_once_agree(store, meanwhile):
    database, elsewhere = store.here.profile.database, store.profile().database
    meanwhile(lambda: apply(elsewhere, manifest(ORDERS), by="bob", guard=BARE))

    done = apply(database, manifest(ORDERS), by="ada", guard=BARE)

    assert (done.snapshot.number, done.snapshot.applied_by, done.fresh) == (1, "bob", False)


def test_a_snapshot_holds_no_secret(store):
    guard = SecretGuard({"TOKEN": "hunter2-hunter2"})
    spilt = replace(ORDERS, source=FileSource("hunter2-hunter2/*.csv", Path("/work")))

    done = apply(store.here.profile.database, manifest(spilt), by="ada", guard=guard)

    assert "hunter2" not in done.snapshot.content
    assert "${TOKEN}" in done.snapshot.content
