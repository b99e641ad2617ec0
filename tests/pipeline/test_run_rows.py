"""The row of a table's run: there from its start, true at its end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from engine.corpus.marker import history
from engine.history import RESERVED
from engine.runs import RUN, RunRow
from engine.shapes import Pull, RunStatus
from tests.pipeline.conftest import orders
from tests.stores import LEASE, Died

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.source import Ask
    from tests.pipeline.conftest import Shop


def recorded(shop: Shop, run_id: str) -> list[tuple[str, dict[str, Any]]]:
    """Phase and content of each row of a run in the reserved table, as they were appended."""
    objects = shop.store.here.profile.objects
    names = [name for name in objects.list(f"{RESERVED}/") if f"-{run_id}-" in name]
    found = [("plan" if "-plan-" in name else "commit", json.loads(objects.get(name) or b"{}")) for name in names]
    return sorted(found, key=lambda row: row[0], reverse=True)


@pytest.mark.clause("run.record.row-at-open", "run.record.owner-lease")
def test_the_row_stands_before_the_first_pull(shop: Shop) -> None:
    seen: list[RunRow] = []

    def source(_: Ask) -> Iterator[Pull]:
        seen.append(shop.store.run("r"))
        yield Pull(rows=[])

    shop.module.script = source
    shop.run(run_id="r")

    (row,) = seen
    assert (row.status, row.rows, row.ended_at) == (RunStatus.RUNNING, 0, None)
    assert row.owner is not None
    assert row.owner.lease_expires_at == shop.store.clock.now() + LEASE


@pytest.mark.clause("run.record.row-at-open")
def test_no_rows_a_failure_and_no_run_read_differently(shop: Shop) -> None:
    shop.feed.serves([])
    shop.run(run_id="empty")
    shop.feed.failures = {1: ValueError("page")}
    shop.run(run_id="failed")

    empty, failed = shop.store.run("empty"), shop.store.run("failed")

    assert (empty.status, empty.rows, empty.error) == (RunStatus.SUCCESS, 0, None)
    assert failed.error is not None
    assert (failed.status, failed.error["tag"]) == (RunStatus.FAILED, "Permanent")
    assert shop.store.here.runs.get("never") is None


@pytest.mark.clause("run.record.skipped-count", "run.record.columns")
def test_a_row_counts_rows_and_bytes_as_they_landed_and_sums_what_was_skipped(shop: Shop) -> None:
    shop.feed.serves(orders(1, 2), [], orders(3), skipped=2)

    row = shop.run()

    parts = shop.marker().parts
    assert (row.rows, row.batches, row.skipped) == (3, 3, 6)
    assert row.bytes == sum(part.bytes for part in parts) > 0


@pytest.mark.clause("run.record.skipped-count")
def test_replayed_pulls_count_what_they_skipped_too(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2), skipped=2)
    shop.feed.failures = {1: ValueError("second page")}
    failed = shop.run()

    resumed = shop.run()

    assert (failed.skipped, resumed.replayed, resumed.skipped) == (2, 1, 4)


@pytest.mark.clause("run.record.columns", "run.record.plan-identity")
def test_a_row_names_where_it_comes_from_and_keeps_its_plan_after_retirement(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    table = shop.table()

    fired = shop.fire(table, run_id="r")

    row = shop.store.run("r")
    assert (row.fire_id, row.pipeline_id, row.table, row.site_id) == (fired.fire_id, "shop", "orders", "site-1")
    assert (shop.owner(), row.plan_ref) == (None, table.content_hash)
    assert row.connector is not None
    assert row.connector.id == f"python:{shop.module.__name__}:pulls"
    assert row.execution_id is not None
    assert row.trace_id is not None


@pytest.mark.clause("run.record.plan-identity")
def test_a_row_without_a_plan_decodes_with_none(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    shop.run(run_id="r")
    fields = json.loads(shop.store.run("r").record)
    del fields["plan_ref"]

    assert RunRow.from_record(json.dumps(fields)).plan_ref is None


@pytest.mark.clause("run.record.reserved-table")
@pytest.mark.parametrize("failing", [False, True])
def test_each_run_appends_a_row_at_plan_and_one_at_commit(shop: Shop, failing: bool) -> None:
    shop.feed.serves(orders(1), orders(2))
    shop.feed.failures = {1: ValueError("second page")} if failing else {}

    row = shop.run(run_id="r")

    assert [(phase, found["status"]) for phase, found in recorded(shop, "r")] == [
        ("plan", "running"),
        ("commit", str(row.status)),
    ]
    assert [found.record for found in shop.store.here.history.rows()] == [row.record]


@pytest.mark.clause("run.record.reserved-table", "run.record.status-set")
def test_a_run_that_dies_has_its_plan_row_until_it_is_reaped(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    shop.feed.failures = {0: Died()}
    with pytest.raises(Died):
        shop.run(run_id="r", engine=shop.store.stalled())
    before = [phase for phase, _ in recorded(shop, "r")]
    shop.store.clock.advance(LEASE + 1)

    shop.store.engine()

    assert before == ["plan"]
    assert [(phase, row["status"]) for phase, row in recorded(shop, "r")] == [
        ("plan", "running"),
        ("commit", "partial_failure"),
    ]


@pytest.mark.clause("run.record.status-set")
def test_the_statuses_are_the_seven_of_the_contract() -> None:
    assert {str(status) for status in RUN} == {
        "pending", "running", "waiting", "success", "partial_failure", "failed", "canceled",
    }  # fmt: skip


@pytest.mark.clause("run.record.writing-site")
def test_every_row_names_the_site_that_wrote_it(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2))

    shop.run()

    assert shop.read("SELECT DISTINCT _site_id FROM orders") == [("site-1",)]
    assert [marker.by.site_id for marker in history(shop.store.here.profile.objects, "orders")] == ["site-1"]


@pytest.mark.clause("run.record.schema-diff-home", "run.record.schema-diff-shape")
def test_a_downgrade_is_in_the_marker_of_the_run_that_landed_it_and_a_failed_stage_has_none(shop: Shop) -> None:
    shop.feed.serves([{"id": 1, "lines": [{"sku": "a"}]}], orders(2))
    shop.feed.failures = {1: ValueError("second page")}
    shop.run()
    before = list(history(shop.store.here.profile.objects, "orders"))

    shop.run()

    assert before == []
    (event,) = shop.marker().downgrades
    assert set(event) == {"table", "path", "source", "landed", "reason"}
    assert (event["table"], event["path"], event["landed"]) == ("orders", "lines", "json")
