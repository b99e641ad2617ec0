"""Blobs in a bucket: written before they are referenced, verified on every read, swept without taking what is used."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import BlobMissing, StorageBindingUnavailable, StorageFailure, StorageUnusable
from engine.shapes import BlobRef
from engine.sql import call
from r2 import blobs as module
from r2 import names
from r2.blobs import DELETE_WITHIN_S, DOOM_KEPT_MS, PORTION, BucketBlobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.local.sqlite import SqliteDatabase
    from r2.keys import Keys
    from tests.clocks import SettableClock

ATTEMPT_S = 45
"""The longest that a request, once begun, is waited for."""


@pytest.fixture
def content() -> bytes:
    return os.urandom(1000)


@pytest.fixture
def blobs(keys: Keys, database: SqliteDatabase) -> BucketBlobs:
    return BucketBlobs(keys, database)


def reference_of(content: bytes) -> BlobRef:
    return BlobRef(hashlib.sha256(content).hexdigest(), len(content))


def rows(database: SqliteDatabase) -> list[tuple[Any, ...]]:
    return database.run(call("doomed_blobs", portion=1000))[0]


class Faulty:
    """Keys on which a test puts something before a request, or in its place."""

    def __init__(self, keys: Keys, **faults: Callable[..., Any]) -> None:
        self._keys = keys
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        return self._faults.get(name) or getattr(self._keys, name)


@pytest.mark.clause("run.journal.d1-blob", "run.journal.blob-write")
def test_a_content_is_kept_under_its_digest_and_comes_back(blobs: BucketBlobs, keys: Keys, content: bytes) -> None:
    kept = [blobs.put(content) for _ in range(2)]

    assert kept == [reference_of(content)] * 2
    assert blobs.get(kept[0]) == content
    held = keys.get(f"blobs/{kept[0].sha256}")
    assert held is not None
    assert held.content == content


@pytest.mark.clause("run.journal.missing-blob", "run.journal.d1-blob")
def test_a_blob_that_is_gone_raises_and_carries_its_reference(blobs: BucketBlobs, content: bytes) -> None:
    with pytest.raises(BlobMissing) as missing:
        blobs.get(reference_of(content))

    assert missing.value.reference == reference_of(content)


@pytest.mark.clause("run.journal.d1-blob")
def test_a_content_that_is_not_what_its_name_says_is_missing_and_is_written_anew(
    s3_keys: Keys, database: SqliteDatabase, content: bytes
) -> None:
    blobs, reference = BucketBlobs(s3_keys, database), reference_of(content)
    s3_keys.create(names.blob(reference.sha256), b"a stump")

    with pytest.raises(BlobMissing):
        blobs.get(reference)
    blobs.put(content)

    assert blobs.get(reference) == content


@pytest.mark.clause("run.journal.d1-blob")
def test_the_worker_takes_no_content_of_another_digest(binding_keys: Keys, content: bytes) -> None:
    with pytest.raises(StorageUnusable, match="SHA-256"):
        binding_keys.create(names.blob(reference_of(content).sha256), b"another")


@pytest.mark.clause("run.journal.d1-blob")
def test_a_failed_write_leaves_nothing_to_reference(keys: Keys, database: SqliteDatabase, content: bytes) -> None:
    def lost(*_: Any, **__: Any) -> bool:
        raise StorageBindingUnavailable(place="r2", reason="no answer", applied="unknown")

    with pytest.raises(StorageBindingUnavailable):
        BucketBlobs(Faulty(keys, put=lost), database).put(content)

    with pytest.raises(BlobMissing):
        BucketBlobs(keys, database).get(reference_of(content))


@pytest.mark.clause("run.journal.blob-sweep", "run.journal.d1-blob")
def test_a_sweep_takes_what_nothing_references_and_a_writer_writes_it_again(
    blobs: BucketBlobs, database: SqliteDatabase, clock: SettableClock, content: bytes
) -> None:
    reference = blobs.put(content)
    assert blobs.sweep(older_than=clock.now()) == []
    clock.advance(1)

    assert blobs.sweep(older_than=clock.now()) == [reference.sha256]
    with pytest.raises(BlobMissing):
        blobs.get(reference)
    assert rows(database) == []

    assert blobs.get(blobs.put(content)) == content


@pytest.mark.clause("run.journal.blob-sweep", "run.journal.d1-blob")
def test_a_row_is_doomed_before_its_content_goes(keys: Keys, database: SqliteDatabase, clock: SettableClock,
                                                 content: bytes) -> None:  # fmt: skip
    doomed_by_then: list[list[tuple[Any, ...]]] = []

    def delete(key: str) -> bool:
        doomed_by_then.append(rows(database))
        return keys.delete(key)

    reference = BucketBlobs(keys, database).put(content)
    clock.advance(1)
    BucketBlobs(Faulty(keys, delete=delete), database).sweep(older_than=clock.now())

    assert doomed_by_then == [[(reference.sha256, clock.now())]]


@pytest.mark.clause("run.journal.blob-sweep")
def test_a_sweeper_that_stalled_deletes_nothing_a_writer_has_written_again(
    keys: Keys, database: SqliteDatabase, clock: SettableClock, content: bytes
) -> None:
    """The race of a store without conditional deletes: doom, stall, another sweep, a writer, and the first goes on."""
    reference = BucketBlobs(keys, database).put(content)
    clock.advance(1)
    passed = iter([0.0, DOOM_KEPT_MS / 1000 + 1])  # the stall lies between the doom and the deletion

    class Stalls(type(database)):  # type: ignore[misc]  # the same database, with what happens meanwhile
        def run(self, *calls: Any) -> Any:
            answered = database.run(*calls)
            if calls[0].statement.name == "doom_for_deletion":
                clock.advance(DOOM_KEPT_MS + 1)
                BucketBlobs(keys, database).sweep(older_than=0)
                assert BucketBlobs(keys, database).put(content) == reference
            return answered

        def __init__(self) -> None: ...

    swept = BucketBlobs(keys, Stalls(), elapsed=lambda: next(passed)).sweep(older_than=clock.now())

    assert swept == []
    assert BucketBlobs(keys, database).get(reference) == content


@pytest.mark.clause("run.journal.blob-sweep")
def test_a_deletion_whose_answer_was_lost_keeps_writers_out_until_it_cannot_arrive_any_more(
    keys: Keys, database: SqliteDatabase, clock: SettableClock, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.05)
    on_its_way: list[str] = []

    def lost(key: str) -> bool:
        on_its_way.append(key)
        raise StorageBindingUnavailable(place=key, reason="no answer", applied="unknown")

    blobs = BucketBlobs(keys, database)
    reference = blobs.put(content)
    clock.advance(1)

    assert BucketBlobs(Faulty(keys, delete=lost), database).sweep(older_than=clock.now()) == []

    with pytest.raises(StorageFailure, match="doomed"):
        blobs.put(content)
    assert blobs.sweep(older_than=clock.now() + 1) == []  # and no other sweep takes the doom for its own
    [keys.delete(key) for key in on_its_way]
    clock.advance(DOOM_KEPT_MS + 1)
    assert blobs.put(content) == reference
    assert blobs.get(reference) == content


@pytest.mark.clause("run.journal.blob-sweep")
def test_what_an_interrupted_sweep_left_goes_with_a_later_one(
    keys: Keys, database: SqliteDatabase, clock: SettableClock, content: bytes
) -> None:
    reference = BucketBlobs(keys, database).put(content)
    clock.advance(1)
    passed = iter([0.0, DELETE_WITHIN_S])
    assert BucketBlobs(keys, database, elapsed=lambda: next(passed)).sweep(older_than=clock.now()) == []
    clock.advance(DOOM_KEPT_MS + 1)

    assert BucketBlobs(keys, database).sweep(older_than=0) == [reference.sha256]
    assert rows(database) == []


@pytest.mark.clause("run.journal.blob-sweep")
def test_a_doom_is_kept_many_times_as_long_as_a_deletion_under_it_can_take() -> None:
    assert DOOM_KEPT_MS / 1000 >= 4 * (DELETE_WITHIN_S + ATTEMPT_S)


@pytest.mark.clause("run.journal.blob-sweep", "run.journal.d1-blob")
def test_a_sweep_dooms_no_more_than_it_can_delete_in_time(
    s3_keys: Keys, database: SqliteDatabase, clock: SettableClock
) -> None:
    """A bucket that takes a second for each: whenever one is deleted no more than a portion is doomed, none at last."""
    doomed: list[int] = []
    seconds = 0.0

    def slowly(key: str) -> bool:
        nonlocal seconds
        doomed.append(len(rows(database)))
        seconds += 1
        return s3_keys.delete(key)

    blobs = BucketBlobs(Faulty(s3_keys, delete=slowly), database, elapsed=lambda: seconds)
    kept = sorted(blobs.put(b"%d" % number).sha256 for number in range(2 * PORTION + 10))
    clock.advance(1)

    swept = [blobs.sweep(older_than=clock.now()), blobs.sweep(older_than=clock.now())]

    assert max(doomed) == PORTION
    assert rows(database) == []
    assert swept == [kept[: 2 * PORTION], kept[2 * PORTION :]]  # the first began no portion behind its deadline
