"""Between a pull and its commit: one staged part a pull, one commit a run, nothing of a failure."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from engine.corpus.marker import history
from engine.shapes import Pull, RunStatus
from tests.pipeline.conftest import day, orders
from tests.stores import LEASE, Died

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.source import Ask
    from tests.pipeline.conftest import Shop


@pytest.mark.clause("run.own.backpressure", "run.own.one-commit-per-run")
def test_each_pull_is_staged_before_the_next_and_one_commit_names_them_all(shop: Shop) -> None:
    """The scenario: three pages, part 0 after the first pull, 1 after the second, 2 after the third."""
    before_pull: list[list[str]] = []
    after_pull: list[list[str]] = []

    def source(_: Ask) -> Iterator[Pull]:
        for page in range(3):
            before_pull.append(shop.staged())
            yield Pull(rows=orders(page), position=page + 1, more=page < 2)

    shop.module.script = source
    outcome = shop.fire(shop.table(), run_id="r", look=lambda *_: after_pull.append(shop.staged()))

    parts = [f"r/{number:06}.arrow" for number in range(3)]
    assert before_pull == [[], parts[:1], parts[:2]]
    assert after_pull == [parts[:1], parts[:2], parts]
    assert [part.name for part in shop.marker().parts] == [f"orders/parts/r/{n:06}.parquet" for n in range(3)]
    assert (shop.marker().seq, outcome.runs[0].rows) == (1, 3)
    assert shop.staged() == []


@pytest.mark.clause("run.own.backpressure")
def test_one_pulled_batch_is_in_memory_at_a_time(shop: Shop) -> None:
    alive: list[weakref.ref[Page]] = []
    together: list[int] = []
    in_arrow: list[int] = []

    def source(_: Ask) -> Iterator[Pull]:
        for page in range(6):
            rows = Page(orders(page))
            alive.append(weakref.ref(rows))
            yield Pull(rows=rows, position=page + 1, more=page < 5)

    def look(*_: object) -> None:
        gc.collect()
        together.append(sum(page() is not None for page in alive))
        in_arrow.append(pa.total_allocated_bytes())

    shop.module.script = source
    shop.fire(shop.table(), look=look)

    assert together == [1] * 6
    assert len(set(in_arrow)) == 1


class Page(list[Any]):
    """A page of rows that a weak reference can point to."""


@pytest.mark.clause("run.own.stage-schema")
def test_a_failed_run_leaves_no_trace_in_the_tables_schema(shop: Shop) -> None:
    """The scenario: `s` staged as text by a run that fails, then landed as a timestamp; its commit refuses."""
    shop.feed.serves([{"id": 1, "s": "soon"}], orders(2))
    shop.feed.failures = {1: OSError("second page")}
    text = shop.table()
    assert shop.fire(text, run_id="run-s").runs[0].status is RunStatus.FAILED
    _another_commits_a_timestamp(shop)

    refused = shop.fire(text, run_id="run-s2").runs[0]

    assert refused.status is RunStatus.FAILED
    assert refused.error is not None
    assert refused.error["name"] == "StoreSchemaIncompatible"
    assert refused.error["tag"] == "SchemaIncompatible"
    assert shop.marker().schema["s"].type == "timestamp"
    assert shop.ids() == [7]


def _another_commits_a_timestamp(shop: Shop) -> None:
    """A machine whose own state knows of no pending owner writes into the same corpus."""
    elsewhere = replace(shop.store, opened=[], root=shop.store.root / "elsewhere").initialized()
    engine = elsewhere.engine()
    engine.profile = replace(engine.profile, objects=shop.store.here.profile.objects)
    shop.module.script = lambda _: iter([Pull(rows=[{"id": 7, "s": day(1)}])])
    (row,) = shop.fire(shop.table(types={"s": "timestamp"}), engine=engine).runs
    assert row.status is RunStatus.SUCCESS
    elsewhere.close()
    shop.module.script = shop.feed


@pytest.mark.clause("run.own.stage-schema", "run.own.source-stage-schema")
def test_a_type_that_the_table_refuses_is_refused_at_the_stage_and_a_mended_source_is_asked(shop: Shop) -> None:
    shop.feed.serves([{"id": 1, "size": 7}])
    shop.run()
    shop.feed.serves([{"id": 1, "size": 7}], [{"id": 2, "size": "large"}])
    refused = shop.run()
    shop.feed.serves([{"id": 1, "size": 7}], [{"id": 2, "size": 9}])

    mended = shop.run()

    assert refused.error is not None
    assert "orders.size is int64 and cannot take string" in refused.error["message"]
    assert (mended.status, mended.replayed, shop.feed.read) == (RunStatus.SUCCESS, 0, [1])
    assert shop.ids() == [1, 2]


@pytest.mark.clause("run.own.stage-discard")
def test_a_run_whose_second_pull_fails_leaves_no_staged_part(shop: Shop) -> None:
    """The scenario, to the letter."""
    staged: list[list[str]] = []
    shop.feed.serves(orders(1), orders(2))
    shop.feed.failures = {1: ValueError("second page")}

    outcome = shop.fire(shop.table(), run_id="r", look=lambda *_: staged.append(shop.staged()))

    assert outcome.runs[0].status is RunStatus.FAILED
    assert staged == [["r/000000.arrow"]]
    assert shop.staged() == []


@pytest.mark.clause("run.own.stage-discard", "run.own.one-commit-per-run")
def test_a_crash_leaves_its_staged_parts_and_the_next_fire_removes_them(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2))
    shop.feed.failures = {1: Died()}
    with pytest.raises(Died):
        shop.fire(shop.table(), run_id="r", engine=shop.store.stalled())
    assert shop.staged() == ["r/000000.arrow"]
    shop.store.clock.advance(LEASE + 1)

    row = shop.run(engine=shop.store.engine(), run_id="r2")

    assert (row.status, row.replayed) == (RunStatus.SUCCESS, 1)
    assert shop.staged() == []
    assert [marker.by.run_id for marker in history(shop.store.here.profile.objects, "orders")] == ["r2"]


@pytest.mark.clause("run.own.stage-discard")
def test_a_fire_beside_a_run_at_work_leaves_its_staged_parts_alone(shop: Shop) -> None:
    beside: list[list[str]] = []

    def look(*_: object) -> None:
        if not beside:
            shop.module.feeds["other"] = lambda _: iter([Pull(rows=orders(9))])
            shop.fire(shop.table("customers", entry="other"), engine=shop.store.engine())
            beside.append(shop.staged())

    shop.feed.serves(orders(1), orders(2))
    (row,) = shop.fire(shop.table(), run_id="r", look=look).runs

    assert beside == [["r/000000.arrow"]]
    assert (row.status, shop.ids()) == (RunStatus.SUCCESS, [1, 2])


@pytest.mark.clause("run.own.stage-instant", "run.own.stage-commit-seq")
def test_every_row_of_a_run_carries_the_number_and_instant_of_its_commit(shop: Shop) -> None:
    began = shop.store.clock.now()

    def source(_: Ask) -> Iterator[Pull]:
        for page in range(3):
            shop.store.clock.advance(5_000)  # what is staged does not know yet when it is committed
            yield Pull(rows=orders(page), position=page + 1, more=page < 2)

    shop.module.script = source
    shop.run(run_id="r")

    assert shop.marker().committed_at == shop.store.clock.now() == began + 15_000
    found = shop.read("SELECT DISTINCT _run_id, _commit_seq, epoch_ms(_ingested_at), _site_id FROM orders")
    assert found == [("r", 1, shop.marker().committed_at, "site-1")]
    assert shop.read("SELECT _row_seq FROM orders ORDER BY _row_seq") == [(0,), (1,), (2,)]
