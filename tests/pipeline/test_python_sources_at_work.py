"""A Python source inside a run: its requests, its Arrow rows, its large pulls, what it leaves open."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from engine.shapes import INLINE_LIMIT, Pull, RunStatus
from engine.sql import call
from tests.pipeline.conftest import day, orders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.source import Ask
    from engine.shapes import Entry
    from tests.pipeline.conftest import Api, Shop


def entries(shop: Shop) -> list[Entry]:
    owner = shop.owner()
    assert owner is not None
    return shop.store.here.profile.journal.entries(owner.execution_id)


@pytest.mark.clause("run.journal.idempotency-key", "run.journal.ledger-settles-first")
def test_its_requests_carry_the_pulls_key_and_stand_in_the_ledger(shop: Shop, api: Api) -> None:
    api.pages = [orders(1), orders(2)]

    def source(ask: Ask) -> Iterator[Pull]:
        for page in range(ask.position or 0, 2):
            body = ask.http.get(f"{api.url}/orders", params={"page": page}).json()
            yield Pull(rows=body["items"], position=page + 1, more=page == 0)

    shop.module.script = source
    ledgers: list[list[Any]] = []

    def look(*_: Any) -> None:
        owner = shop.owner()
        assert owner is not None
        listing = call("list_requests", execution_id=owner.execution_id)
        ledgers.append(shop.store.here.profile.database.run(listing)[0])

    shop.fire(shop.table(), look=look)

    assert shop.ids() == [1, 2]
    assert len({headers["idempotency-key"] for headers in api.headers}) == 2
    sent = [json.loads(row[-1]) for row in ledgers[-1]]
    assert [len(ledger) for ledger in ledgers] == [1, 2]
    assert sent == [[{"method": "GET", "url": f"{api.url}/orders", "status": 200}]] * 2


@pytest.mark.clause("run.retry.failure-taxonomy", "run.retry.one-layer")
def test_an_answer_it_raises_for_is_retried_by_the_schedule_alone(shop: Shop, api: Api) -> None:
    api.pages = [orders(1)]
    api.refusals = {0: (503, {})}

    def source(ask: Ask) -> Iterator[Pull]:
        yield Pull(rows=ask.http.get(f"{api.url}/orders").raise_for_status().json()["items"])

    shop.module.script = source

    row = shop.run()

    assert (row.status, len(api.asked)) == (RunStatus.SUCCESS, 2)
    assert [wait for wait in shop.store.clock.waits if wait] == [100]
    assert len({headers["idempotency-key"] for headers in api.headers}) == 1


@pytest.mark.clause("run.journal.replay-lands", "run.journal.recorded-batch")
def test_arrow_rows_land_as_rows_do_and_replay(shop: Shop) -> None:
    table = pa.table({"id": pa.array([1, 2], pa.int32()), "at": [day(1), day(2)], "size": [2**53 + 1, None]})

    def source(ask: Ask) -> Iterator[Pull]:
        if ask.position is None:
            yield Pull(rows=table.slice(0, 1), position=1, more=True)
        yield Pull(rows=table.slice(1, 1).to_batches()[0], position=2)

    def failing(_: Ask) -> Iterator[Pull]:
        yield Pull(rows=table.slice(0, 1), position=1, more=True)
        raise ValueError("second page")

    shop.module.script = failing
    assert shop.run(incremental="at").status is RunStatus.FAILED
    shop.module.script = source

    row = shop.run(incremental="at")

    assert (row.error, row.replayed) == (None, 1)
    assert shop.read('SELECT id, "at", size FROM orders ORDER BY id') == [(1, day(1), 2**53 + 1), (2, day(2), None)]


@pytest.mark.clause("run.journal.one-cutoff", "run.journal.replay-lands")
def test_a_pull_past_the_cutoff_is_recorded_as_a_blob_and_replayed_from_it(shop: Shop) -> None:
    noise = random.Random(7)
    large = [{"id": n, "noise": noise.randbytes(64 << 10).hex()} for n in range(20)]
    shop.feed.serves(orders(100), large, orders(101))
    shop.feed.failures = {2: ValueError("third page")}
    shop.run()

    small, blob = (entry for entry in sorted(entries(shop), key=lambda e: e.key.step) if entry.recorded)
    resumed = shop.run()

    assert (small.blob, blob.value) == (None, None)
    assert blob.blob is not None
    assert blob.blob.bytes > INLINE_LIMIT
    assert (resumed.replayed, resumed.rows, shop.feed.read) == (2, 22, [0, 1, 2, 2])
    assert shop.read("SELECT noise FROM orders WHERE id = 19") == [(large[19]["noise"],)]


def test_what_it_opened_is_closed_whichever_way_the_run_ends(shop: Shop) -> None:
    closed: list[str] = []

    def source(_: Ask) -> Iterator[Pull]:
        try:
            yield Pull(rows=[{"id": 1}], position=1, more=True)
            yield Pull(rows=[{"id": "two"}], position=2, more=True)
            yield Pull(rows=[{"id": 3}], position=3)
        finally:
            closed.append("closed")

    shop.module.script = source

    assert shop.run().status is RunStatus.FAILED

    assert closed == ["closed"]


def test_a_source_that_fails_to_close_takes_nothing_back(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    def source(_: Ask) -> Iterator[Pull]:
        try:
            yield Pull(rows=[{"id": 1}])
        finally:
            raise OSError("the connection was gone")

    shop.module.script = source

    row = shop.run()

    assert (row.status, shop.ids()) == (RunStatus.SUCCESS, [1])
    assert "the connection was gone" in caplog.text


def test_a_source_is_closed_on_the_thread_that_it_was_read_on(shop: Shop) -> None:
    """What it opened may belong to that thread, as a connection to SQLite does."""
    import threading  # noqa: PLC0415 - what this test alone looks at

    threads: list[int] = []

    def source(_: Ask) -> Iterator[Pull]:
        threads.append(threading.get_ident())
        try:
            yield Pull(rows=[{"id": 1}])
        finally:
            threads.append(threading.get_ident())

    shop.module.script = source
    shop.run()

    assert len(threads) == 2
    assert len(set(threads)) == 1


def test_rows_may_be_any_iterable_of_mappings(shop: Shop) -> None:
    shop.module.script = lambda _: iter([Pull(rows=({"id": n} for n in range(3)))])

    assert shop.run().rows == 3
