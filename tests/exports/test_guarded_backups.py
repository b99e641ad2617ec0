"""A backup that is taken while a guard stands brings it back, with everything that decides about it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from engine.backup import backup, restore
from engine.dump import rows, tables
from engine.errors import ExecutionTransferBlocked
from engine.guards.desk import Desk
from engine.profile import Profile, open_profile
from engine.shapes import RunStatus
from engine.sql import call
from tests.clocks import SettableClock
from tests.exports.publishing import Publishing
from tests.stores import PROJECT, Store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.exports.receiver import Receiver

DAY = 86_400_000
KEPT = ("owners", "leases", "guards", "guard_audit", "journal", "exports", "outbox")


def everything(profile: Profile) -> dict[str, list[tuple[Any, ...]]]:
    return {table.name: list(rows(profile.database, table)) for table in tables(profile.tables) if table.name in KEPT}


@pytest.fixture
def stuck(publishing: Publishing, receiver: Receiver) -> Publishing:
    """An export whose second batch went unanswered; a receipt settled one of an earlier export, and a lease is held."""
    publishing.window_ms = None
    publishing.land(1)
    receiver.manners = ["lost"]
    publishing.run(name="settled")
    [settled] = publishing.guards
    evidence = f"receipt:{settled.guard.idempotency_key}:rec-1"
    publishing.desk.reconcile(settled.guard.token, evidence=evidence, operator="ann")
    publishing.land(2, 3)
    receiver.manners = [200, "lost"]
    publishing.run()
    publishing.store.here.profile.database.run(call("take_lease", key="entity:1", holder="h-1"))
    return publishing


@pytest.fixture
def taken(stuck: Publishing, tmp_path: Path) -> Path:
    """Its backup, every engine gone."""
    stuck.store.close()
    stuck.store.clock.advance(DAY)
    profile = open_profile("sqlite", stuck.store.root, clock=stuck.store.clock, environ={})
    backup(profile, tmp_path / "backup", project=PROJECT)
    profile.close()
    return tmp_path / "backup"


@pytest.fixture
def other(taken: Path, tmp_path: Path) -> Store:
    """A store that holds the objects alone, as after the loss of the database."""
    shutil.copytree(tmp_path / "project" / "corpus", tmp_path / "other" / "corpus")
    clock = SettableClock()
    clock.advance(2 * DAY)
    return Store("sqlite", tmp_path / "other", clock, dict)


@pytest.mark.clause("run.journal.d1-backup")
def test_guards_their_audit_and_what_is_left_to_publish_come_back_row_by_row(
    stuck: Publishing, taken: Path, other: Store
) -> None:
    restored = restore(other.profile(), taken, project=PROJECT)

    kept = everything(open_profile("sqlite", stuck.store.root, clock=stuck.store.clock, environ={}))
    assert everything(other.profile()) == kept
    assert {name: len(found) for name, found in kept.items()} == {
        "owners": 2, "leases": 1, "guards": 1, "guard_audit": 1, "journal": 5, "exports": 2, "outbox": 3,
    }  # fmt: skip
    assert {name: restored.rows[name] for name in KEPT} == {name: len(found) for name, found in kept.items()}
    other.close()


@pytest.mark.clause("run.journal.d1-backup", "run.journal.d1-guard")
def test_a_restored_guard_still_blocks_and_its_receipt_still_moves_the_export_on(
    taken: Path, other: Store, receiver: Receiver
) -> None:
    restore(other.profile(), taken, project=PROJECT)
    again = Publishing(other, receiver, window_ms=None)

    with pytest.raises(ExecutionTransferBlocked) as blocked:
        again.run()
    [owner] = [owner for owner in other.here.owners.all() if owner.scope == "export:out"]
    with pytest.raises(ExecutionTransferBlocked):
        other.here.owners.withdraw(owner)
    profile = other.here.profile
    evidence = f"receipt:{blocked.value.idempotency_key}:rec-2"
    Desk(profile.database, profile.admission).reconcile(blocked.value.token, evidence=evidence, operator="ann")

    ended = again.run()

    assert (ended.run.status, ended.run.batches, ended.run.replayed) == (RunStatus.SUCCESS, 2, 2)
    assert len(receiver.requests) == 3
    other.close()


@pytest.mark.clause("run.journal.d1-backup", "run.journal.execution-recovery")
def test_a_restore_that_was_cut_behind_a_guard_is_finished_by_repeating_it(
    taken: Path, other: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("engine.backup.initialize", _cut)
        with pytest.raises(KeyboardInterrupt):
            restore(other.profile(), taken, project=PROJECT)

    restore(other.profile(), taken, project=PROJECT)

    assert [standing.guard.scope for standing in Desk(other.profile().database, other.here.profile.admission).guards()]
    other.close()


def _cut(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt
