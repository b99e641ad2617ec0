"""Blobs that nothing references go by themselves: any engine of the store sees to it once every 24 h."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from engine.blob_pass import SWEEP_AGAIN_MS
from engine.errors import BlobMissing, StorageFailure
from engine.journal import SWEEP_EVERY_MS
from engine.local import blobs as local
from engine.local.tree import journal as tree
from r2 import blobs as bucket
from tests.stores import MIB, Effect, Store

if TYPE_CHECKING:
    from engine.shapes import Entry
    from tests.clocks import SettableClock

HOUR, DAY = 3_600_000, 86_400_000


def forgotten(store: Store, scope: str = "done") -> Entry:
    """The entry of an execution that is over, whose blob nothing references any more."""
    execution = store.open(scope)
    execution.step("effect", Effect(scope.encode() + b"x" * MIB))
    (entry,) = store.entries(execution.execution_id)
    execution.close()
    return entry


def stands(store: Store, entry: Entry) -> bool:
    try:
        return bool(store.here.profile.journal.value(entry))
    except BlobMissing:
        return False


@pytest.mark.clause("run.journal.blob-sweep")
def test_an_engine_that_starts_a_day_after_the_last_pass_makes_the_next(store: Store, clock: SettableClock) -> None:
    assert SWEEP_EVERY_MS == DAY
    entry = forgotten(store)
    clock.advance(DAY - 1)
    store.engine()
    early = stands(store, entry)
    clock.advance(1)

    store.engine()

    assert early
    assert not stands(store, entry)


@pytest.mark.clause("run.journal.blob-sweep")
def test_an_engine_that_lives_for_days_makes_the_pass_at_the_next_scope_it_opens(
    store: Store, clock: SettableClock
) -> None:
    first = forgotten(store)
    clock.advance(DAY)
    second = forgotten(store, "the second")
    swept = [stands(store, first), stands(store, second)]
    clock.advance(DAY - 1)
    store.open("early").close()
    swept.append(stands(store, second))
    clock.advance(1)

    store.open("due").close()

    assert swept == [False, True, True]
    assert not stands(store, second)


@pytest.mark.clause("run.journal.blob-sweep")
def test_a_pass_takes_no_blob_of_the_last_hour_and_none_that_is_referenced(store: Store, clock: SettableClock) -> None:
    pending = store.open("pending")
    pending.step("effect", Effect(b"p" + b"x" * MIB))
    (kept,) = store.entries(pending.execution_id)
    clock.advance(DAY - HOUR)
    young = forgotten(store)
    clock.advance(HOUR)

    store.engine()

    assert (stands(store, kept), stands(store, young)) == (True, True)


@pytest.mark.clause("run.journal.blob-sweep")
def test_a_pass_that_fails_stops_no_work_and_is_made_by_the_next_engine(
    store: Store, clock: SettableClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    entry = forgotten(store)
    clock.advance(DAY)

    def away(*_: Any, **__: Any) -> None:
        raise StorageFailure("the bucket is away")

    with monkeypatch.context() as patch:
        patch.setattr(type(store.here.profile.journal), "sweep", away)
        execution = store.open("meanwhile", engine=store.engine())
        assert execution.step("one", Effect("works")) == "works"
    assert "not swept yet" in caplog.text
    assert all(record.exc_info is None for record in caplog.records)
    assert stands(store, entry)

    store.engine()

    assert not stands(store, entry)


@pytest.mark.clause("run.journal.blob-sweep")
def test_an_engine_whose_pass_fails_makes_it_again_some_minutes_later_and_not_at_every_open(
    store: Store, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def away(*_: Any, **__: Any) -> None:
        tries.append(clock.now())
        raise StorageFailure("the bucket is away")

    monkeypatch.setattr(type(store.here.profile.journal), "sweep", away)
    clock.advance(DAY)
    started = clock.now()
    for number in range(3):
        store.open(f"early {number}").close()
    clock.advance(SWEEP_AGAIN_MS)
    for number in range(3):
        store.open(f"late {number}").close()

    assert tries == [started, started + SWEEP_AGAIN_MS]


@pytest.mark.clause("run.journal.blob-sweep")
def test_of_threads_that_open_at_once_one_makes_the_pass_and_none_waits_for_it(
    store: Store, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, going_on, over = type(store.here.profile.journal).sweep, threading.Event(), threading.Event()
    tries: list[str] = []

    def slow(journal: Any, *, older_than: int) -> list[str]:
        tries.append(threading.current_thread().name)
        going_on.set()
        assert over.wait(30)
        return sweep(journal, older_than=older_than)

    monkeypatch.setattr(type(store.here.profile.journal), "sweep", slow)
    clock.advance(DAY)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(store.open, "first")
        try:
            assert going_on.wait(30)
            for number in range(3):
                store.open(f"scope {number}").close()
        finally:
            over.set()
        first.result(30).close()

    assert len(tries) == 1


@pytest.mark.clause("run.journal.blob-sweep")
def test_an_old_store_is_swept_in_portions(store: Store, clock: SettableClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five blobs in portions of two; the one that is referenced stays."""
    for module in (local, tree, bucket):
        monkeypatch.setattr(module, "PORTION", 2)
    pending = store.open("pending")
    pending.step("effect", Effect(b"p" + b"x" * MIB))
    (kept,) = store.entries(pending.execution_id)
    gone = [forgotten(store, f"scope {number}") for number in range(5)]
    clock.advance(1)

    swept = store.here.profile.journal.sweep(older_than=clock.now())

    assert sorted(swept) == sorted(entry.blob.sha256 for entry in gone if entry.blob)
    assert [stands(store, entry) for entry in (kept, *gone)] == [True] + [False] * 5
    assert store.here.profile.journal.unreferenced(older_than=clock.now()) == []


@pytest.mark.clause("run.journal.blob-sweep")
def test_a_note_from_ahead_of_a_clock_that_was_set_back_puts_no_pass_off(store: Store, clock: SettableClock) -> None:
    assert store.owner() is None  # and so an engine is there, at work before the clock is wrong
    clock.advance(1000 * DAY)
    store.engine()
    clock.advance(-1000 * DAY)
    entry = forgotten(store)
    clock.advance(2 * HOUR)

    store.engine()

    assert not stands(store, entry)
