"""Where a value lies by its size, and what keeps a blob alive."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import pytest

from engine.errors import BlobMissing, StepLabelUnusable
from engine.execution import values
from engine.shapes import BlobRef, EntryKey
from tests.stores import LEASE, MIB, Effect, Store, died, key

if TYPE_CHECKING:
    from engine.execution.execution import Execution
    from engine.ports import JournalStore
    from tests.clocks import SettableClock

HOUR = 3_600_000
LARGE = b"x" * (MIB + 1)


def resolved(store: Store, execution: Execution, payload: bytes) -> EntryKey:
    """Wait on an awakeable that is resolved with `payload`; return the key the payload is recorded under."""
    tokens: list[str] = []

    def resolve(token: str) -> None:
        tokens.append(token)
        store.here.profile.awakeables.resolve(token, payload, at=store.clock.now())

    execution.wait("answer", ttl_ms=HOUR, announce=resolve)
    return store.here.profile.awakeables.read(tokens[0]).entry_key


@pytest.mark.clause("run.journal.inline-cutoff")
@pytest.mark.parametrize(("size", "inline"), [(0, True), (1, True), (MIB, True), (MIB + 1, False), (3 * MIB, False)])
def test_a_value_lies_in_its_row_up_to_one_mebibyte_and_in_a_blob_past_it(
    store: Store, size: int, *, inline: bool
) -> None:
    held = store.held()
    journal = store.here.profile.journal
    value = bytes(range(256)) * (size // 256) + b"y" * (size % 256)
    journal.claim(key(held), attempt=held.attempt, token="t")

    journal.record(key(held), attempt=held.attempt, token="t", value=value)

    (entry,) = store.entries(held.attempt.execution_id)
    assert entry.value == (value if inline else None)
    assert entry.blob == (None if inline else BlobRef(hashlib.sha256(value).hexdigest(), size))
    assert journal.value(entry) == value


@pytest.mark.clause("run.journal.one-cutoff")
def test_a_recorded_effect_and_a_resumed_wait_are_cut_off_alike(store: Store) -> None:
    execution = store.open()
    payload = values.encode(LARGE, step="answer")

    execution.step("effect", Effect(LARGE))
    resume = resolved(store, execution, payload)

    entries = {entry.key.step: entry for entry in store.entries(execution.execution_id)}
    by_key = store.here.profile.journal.find(resume)
    assert by_key is not None
    assert entries["effect"].blob == by_key.blob == BlobRef(hashlib.sha256(payload).hexdigest(), len(payload))


@pytest.mark.clause("run.journal.one-cutoff")
def test_at_the_cutoff_no_kind_of_step_leaves_its_row(store: Store) -> None:
    execution = store.open()
    payload = values.encode(b"x" * (MIB - 1), step="answer")

    execution.step("effect", Effect(b"x" * (MIB - 1)))
    resume = resolved(store, execution, payload)

    entry = store.here.profile.journal.find(resume)
    assert entry is not None
    assert entry.value == payload
    assert [entry.blob for entry in store.entries(execution.execution_id)] == [None] * 3


@pytest.mark.clause("run.journal.blob-write")
def test_writers_of_one_content_converge_and_none_fails(store: Store) -> None:
    held = [store.held(f"job-{number}", engine=store.stalled()) for number in range(4)]
    begun = threading.Barrier(4)

    def record(number: int) -> None:
        journal = held[number].steps.journal
        journal.claim(key(held[number]), attempt=held[number].attempt, token="t")
        begun.wait(5)
        journal.record(key(held[number]), attempt=held[number].attempt, token="t", value=LARGE)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(record, range(4)))

    found = [store.entries(one.attempt.execution_id)[0] for one in held]
    assert len({entry.blob for entry in found}) == 1
    assert [store.here.profile.journal.value(entry) for entry in found] == [LARGE] * 4


@pytest.mark.clause("run.journal.missing-blob")
def test_a_row_whose_blob_is_gone_raises_and_names_it(store: Store) -> None:
    execution = store.open()
    execution.step("effect", Effect(LARGE))
    (entry,) = store.entries(execution.execution_id)
    unhinged = store.here.profile.journal
    execution.close()
    unhinged.sweep(older_than=store.clock.now() + 1)

    with pytest.raises(BlobMissing) as missing:
        unhinged.value(entry)

    assert missing.value.reference == entry.blob


@pytest.mark.clause("run.journal.blob-sweep")
def test_a_sweep_deletes_what_nothing_references_and_only_that(store: Store) -> None:
    done, pending = store.open("done"), store.open("pending")
    done.step("effect", Effect(b"1" + LARGE))
    pending.step("effect", Effect(b"2" + LARGE))
    (gone,), (kept,) = store.entries(done.execution_id), store.entries(pending.execution_id)
    done.close()
    store.clock.advance(1)

    swept = store.here.profile.journal.sweep(older_than=store.clock.now())

    assert gone.blob is not None
    assert swept == [gone.blob.sha256]
    assert store.here.profile.journal.value(kept) == values.encode(b"2" + LARGE, step="effect")


@pytest.mark.clause("run.journal.blob-sweep")
def test_an_unreferenced_blob_within_its_grace_is_left_alone(store: Store, clock: SettableClock) -> None:
    execution = store.open()
    execution.step("effect", Effect(LARGE))
    execution.close()
    clock.advance(HOUR)

    assert store.here.profile.journal.sweep(older_than=clock.now() - HOUR) == []
    clock.advance(1)
    assert len(store.here.profile.journal.sweep(older_than=clock.now() - HOUR)) == 1


@pytest.mark.clause("run.journal.blob-sweep")
def test_a_blob_used_again_is_young_again(store: Store, clock: SettableClock) -> None:
    execution = store.open()
    execution.step("effect", Effect(LARGE))
    execution.close()
    clock.advance(2 * HOUR)
    execution = store.open()
    execution.step("effect", Effect(LARGE))
    execution.close()

    assert store.here.profile.journal.sweep(older_than=clock.now() - HOUR) == []


@pytest.mark.clause("run.journal.blob-sweep")
def test_a_resumed_waits_payload_outlives_a_sweep(store: Store, clock: SettableClock) -> None:
    execution = store.open()
    resume = resolved(store, execution, values.encode(LARGE, step="answer"))
    clock.advance(2 * HOUR)

    store.here.profile.journal.sweep(older_than=clock.now())

    entry = store.here.profile.journal.find(resume)
    assert entry is not None
    assert values.decode(store.here.profile.journal.value(entry)) == LARGE


@pytest.mark.clause("run.journal.blob-sweep")
def test_sweeps_that_race_with_records_take_nothing_that_is_referenced(store: Store) -> None:
    held = store.held()
    journals = [store.profile().journal for _ in range(3)]
    done = threading.Event()

    def record(journal: JournalStore, first: int) -> None:
        for number in range(first, first + 6):
            one = key(held, str(number))
            journal.claim(one, attempt=held.attempt, token=f"t{number}")
            journal.record(one, attempt=held.attempt, token=f"t{number}", value=b"%d" % (number % 3) + LARGE)

    def sweep() -> None:
        while not done.is_set():
            journals[2].sweep(older_than=store.clock.now() + 1)

    with ThreadPoolExecutor(3) as pool:
        sweeping = pool.submit(sweep)
        recording = [pool.submit(record, journals[number], number * 6) for number in range(2)]
        wait(recording, timeout=30)
        done.set()
        for one in (*recording, sweeping):
            one.result(30)

    found = store.entries(held.attempt.execution_id)
    assert len(found) == 12
    assert all(store.here.profile.journal.value(entry)[1:] == LARGE for entry in found)


@pytest.mark.clause("run.journal.step-output")
def test_a_large_value_is_replayed_by_the_attempt_that_takes_over(store: Store, clock: SettableClock) -> None:
    crashed = store.elsewhere()
    crashed.step("effect", Effect(LARGE))
    clock.advance(LEASE)

    assert store.open().step("effect", died) == LARGE


def test_a_label_that_is_no_text_is_refused_before_its_effect(store):
    with store.engine() as engine, engine.open("job", plan="p") as x, pytest.raises(StepLabelUnusable):
        x.step("\udc80", lambda _: pytest.fail("the effect ran"))
