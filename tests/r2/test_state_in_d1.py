"""State in D1, its bucket over S3 and sealed: backed up, restored beside that bucket, unreadable to others."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from engine.backup import backup, restore
from engine.dump import rows, tables
from engine.errors import ExecutionRecoveryMismatch, SealBroken, StorageProfileUnsupported
from engine.profile import open_profile
from engine.sealed import KEY
from engine.storage import preflight
from tests.stores import MIB, PROJECT, Effect, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from r2.keys import Keys
    from tests.clocks import SettableClock

ON_EDGE = "cloudflare-d1"
PLANTED = "PLANTED-7f3a"
ONE, OTHER = (base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))
DAY = 86_400_000


@pytest.fixture
def settings(fresh_edge: Callable[[], dict[str, str]], s3_folder: dict[str, str]) -> Callable[[], dict[str, str]]:
    """A database of its own for whoever asks, and one sealed bucket for all."""
    return lambda: {**fresh_edge(), **s3_folder, "CONTEXTFUL_OBJECTS": "r2-s3", KEY: ONE}


@pytest.fixture
def worked(tmp_path: Path, clock: SettableClock, settings: Callable[[], dict[str, str]]) -> Store:
    """A pending execution with a small and a large value, and an object of the corpus."""
    store = Store(ON_EDGE, tmp_path / "first", clock, settings).initialized()
    pending = store.open("pending")
    pending.step("small", Effect(PLANTED))
    pending.step("large", Effect(PLANTED * MIB))
    store.here.profile.objects.put("t/note", PLANTED.encode())
    store.close()
    clock.advance(DAY)
    return store


@pytest.mark.clause("run.journal.d1-backup", "run.journal.d1-recovery", "run.journal.d1-profile")
def test_a_database_that_is_lost_is_restored_beside_its_bucket(
    worked: Store, tmp_path: Path, clock: SettableClock, settings: Callable[[], dict[str, str]]
) -> None:
    first = worked.profile()
    taken = backup(first, tmp_path / "backup", project=PROJECT)
    second = Store(ON_EDGE, tmp_path / "second", clock, settings)

    restore(second.profile(), tmp_path / "backup", project=PROJECT)

    assert (taken.rows["journal"], taken.blobs) == (2, 1)
    for table in tables(first.tables):
        if table.name != "meta":
            assert list(rows(first.database, table)) == list(rows(second.profile().database, table)), table.name
    effect = Effect("again")
    execution = second.open("pending")
    assert (execution.step("small", effect), execution.step("large", effect)) == (PLANTED, PLANTED * MIB)
    assert effect.calls == 0
    with pytest.raises(ExecutionRecoveryMismatch, match="generation"):
        preflight(first, project=PROJECT)  # two databases never work beside one bucket
    second.close()
    worked.close()


@pytest.mark.clause("run.journal.storage-unsupported")
def test_nothing_planted_is_readable_in_bucket_or_database(worked: Store, s3_keys: Keys) -> None:
    profile = worked.profile()
    contents = [held.content for facts in s3_keys.list("") if (held := s3_keys.get(facts.key))]
    cells = [cell for table in tables(profile.tables) for row in rows(profile.database, table) for cell in row]

    assert len(contents) > 2
    assert not any(PLANTED.encode() in content for content in contents)
    assert not any(PLANTED in str(cell) for cell in cells)
    assert profile.objects.get("t/note") == PLANTED.encode()
    worked.close()


@pytest.mark.clause("run.journal.storage-unsupported")
def test_a_sealed_bucket_is_opened_under_its_own_key_alone(worked: Store) -> None:
    without = {name: value for name, value in worked.environ.items() if name != KEY}

    under_another = open_profile(ON_EDGE, worked.root, clock=worked.clock, environ=worked.environ | {KEY: OTHER})
    under_none = open_profile(ON_EDGE, worked.root, clock=worked.clock, environ=without)

    with pytest.raises(SealBroken, match="sealed under key"):
        preflight(under_another, project=PROJECT)
    with pytest.raises(StorageProfileUnsupported, match="without the key"):
        preflight(under_none, project=PROJECT)
    under_another.close()
    under_none.close()
