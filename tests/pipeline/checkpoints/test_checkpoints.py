"""Checkpoints of a walk: when they come, what they are called, and what is counted of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.shapes import RunStatus
from tests.pipeline.checkpoints.conftest import NOISE, commits, limit, page, sixteen
from tests.pipeline.conftest import day

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.pipeline.walk import Landing
    from engine.runs import RunRow
    from tests.pipeline.conftest import Shop


@pytest.mark.clause("run.own.checkpoint-commit", "run.own.checkpoint-run-id", "run.own.one-commit-per-run")
def test_sixteen_pulls_are_committed_four_at_a_time(shop: Shop, unit: int) -> None:
    """The scenario: parts of an eighth of the limit, four commits of four parts, positions p4, p8, p12 and p16."""
    limit(shop.store.here, unit)
    sixteen(shop)

    row = shop.run(run_id="r")

    assert [(marker.position, len(marker.parts)) for marker in commits(shop)] == [(4, 4), (8, 4), (12, 4), (16, 4)]
    assert [marker.by.commit_id for marker in commits(shop)] == ["r", "r.000001", "r.000002", "r.000003"]
    assert [(m.by.ordinal, m.by.final, m.by.pulls) for m in commits(shop)] == [
        (0, False, 4), (1, False, 8), (2, False, 12), (3, True, 16)]  # fmt: skip
    assert [part.name for part in commits(shop)[1].parts] == [f"orders/parts/r.000001/{n:06}.parquet" for n in range(4)]
    assert (row.status, row.rows, row.batches) == (RunStatus.SUCCESS, 16, 16)
    assert row.bytes == sum(marker.size for marker in commits(shop))
    assert shop.ids() == list(range(1, 17))
    assert shop.owner() is None
    assert shop.staged() == []


@pytest.mark.clause("run.own.checkpoint-commit", "run.own.backpressure")
def test_a_checkpoint_comes_before_more_is_staged_and_under_the_same_execution(shop: Shop, unit: int) -> None:
    seen: list[tuple[int, int, int]] = []
    executions: set[str | None] = set()

    def look(run: RunRow, landing: Landing) -> None:
        seen.append((landing.number, len(shop.staged()), len(commits(shop))))
        executions.add(run.execution_id)

    limit(shop.store.here, unit)
    sixteen(shop)
    shop.fire(shop.table(), look=look)

    assert seen[:6] == [(0, 1, 0), (1, 2, 0), (2, 3, 0), (3, 4, 0), (4, 1, 1), (5, 2, 1)]
    assert len(executions) == 1


@pytest.mark.clause("run.own.checkpoint-commit")
def test_a_pull_that_would_pass_the_limit_makes_room_for_itself(shop: Shop, unit: int) -> None:
    limit(shop.store.here, unit, staged=3, checkpoint=2.9)
    shop.feed.serves(page(1), page(2), [{"id": 3, "at": day(1), "text": NOISE + NOISE[::-1]}], page(4))

    row = shop.run()

    assert row.status is RunStatus.SUCCESS
    assert [marker.position for marker in commits(shop)] == [2, 4]


@pytest.mark.clause("run.own.checkpoint-frontier", "run.advance.frontier", "run.advance.watermark-shape")
@pytest.mark.parametrize("spelled", [day, lambda number: number, lambda number: f"2026-01-0{number}T02:00:00+02:00"])
def test_no_instant_is_parted_by_two_commits(shop: Shop, unit: int, spelled: Callable[[int], Any]) -> None:
    """The scenario: five pages of clocks 1 1, 1, 2, 2 and 3, each of half the limit: commits at 1, 2 and 3."""
    clocks = {1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 6: 3}
    pages = [page(*ids) for ids in ((1, 2), (3,), (4,), (5,), (6,))]
    shop.feed.serves(*([row | {"at": spelled(clocks[row["id"]])} for row in rows] for rows in pages))
    limit(shop.store.here, unit, staged=2.1, checkpoint=0.9)

    row = shop.run(incremental="at")

    assert row.status is RunStatus.SUCCESS
    assert [marker.position for marker in commits(shop)] == [{"field": "at", "at": spelled(n)} for n in (1, 2, 3)]
    landed = shop.read("SELECT id, _commit_seq FROM orders ORDER BY id")
    assert landed == list(clocks.items())


@pytest.mark.clause("run.own.checkpoint-frontier")
def test_a_walk_against_the_clock_commits_once(shop: Shop, unit: int) -> None:
    limit(shop.store.here, unit)
    shop.feed.serves(*(page(number, at=20 - number) for number in range(1, 7)))

    shop.run(incremental="at")

    assert [marker.position["at"] for marker in commits(shop)] == [day(19)]


@pytest.mark.clause("run.own.checkpoint-id-length")
def test_a_run_id_that_leaves_no_room_for_ordinals_commits_nothing(shop: Shop, unit: int) -> None:
    """The scenario: a run id of 122 characters and sixteen parts."""
    limit(shop.store.here, unit)
    sixteen(shop)

    row = shop.run(run_id="r" * 122)

    assert row.error is not None
    assert (row.status, row.error["name"], row.error["tag"]) == (
        RunStatus.FAILED, "RunCheckpointIdTooLong", "Permanent")  # fmt: skip
    assert f"{'r' * 122}.000001" in row.error["message"]
    assert (commits(shop), shop.owner(), shop.staged(), row.rows) == ([], None, [], 0)


@pytest.mark.clause("run.own.checkpoint-id-length")
def test_a_run_id_with_room_for_ordinals_to_the_character_commits(shop: Shop, unit: int) -> None:
    limit(shop.store.here, unit)
    sixteen(shop)

    assert shop.run(run_id="r" * 121).status is RunStatus.SUCCESS
    assert {len(marker.by.commit_id) for marker in commits(shop)} == {121, 128}


@pytest.mark.clause("run.own.checkpoint-id-length")
def test_the_longest_run_id_serves_a_run_that_commits_once(shop: Shop, unit: int) -> None:
    limit(shop.store.here, unit)
    shop.feed.serves(page(1), page(2))

    assert shop.run(run_id="r" * 128).status is RunStatus.SUCCESS


@pytest.mark.clause("run.own.checkpoint-landed", "run.retry.partial-failure")
def test_a_run_that_fails_counts_what_its_checkpoints_landed(shop: Shop, unit: int) -> None:
    """The scenario: checkpoints at p4 and p8, the tenth pull fails: the failed row counts eight rows."""
    limit(shop.store.here, unit)
    sixteen(shop)
    shop.feed.failures = {9: ValueError("tenth")}

    row = shop.run()

    assert (row.status, row.rows) == (RunStatus.FAILED, 8)
    assert row.bytes == sum(marker.size for marker in commits(shop)) > 0
    assert [marker.position for marker in commits(shop)] == [4, 8]
    assert shop.ids() == list(range(1, 9))
    assert shop.staged() == []


@pytest.mark.clause("run.own.checkpoint-landed")
def test_a_checkpoint_whose_cursor_update_fails_is_counted(
    shop: Shop, unit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(shop.store.here, unit)
    sixteen(shop)
    monkeypatch.setattr(shop.store.here.owners, "checkpoint", _refusing)

    row = shop.run()

    assert (row.status, row.rows) == (RunStatus.FAILED, 4)
    assert shop.ids() == [1, 2, 3, 4]


def _refusing(*_: Any, **__: Any) -> None:
    raise ValueError("the catalog is gone")


@pytest.mark.clause("run.own.stage-schema", "run.own.source-stage-schema")
def test_what_a_checkpoint_landed_is_the_schema_that_the_next_pull_is_staged_against(shop: Shop, unit: int) -> None:
    limit(shop.store.here, unit)
    sixteen(shop)
    shop.feed.pages[:5] = [
        *([row | {"size": 7} for row in page(number)] for number in range(1, 5)),
        [row | {"size": "large"} for row in page(5)],
    ]

    row = shop.run()

    assert row.error is not None
    assert "orders.size is int64 and cannot take string" in row.error["message"]
    assert "(orders, pull 4, row 1)" in row.error["message"]
    assert (shop.feed.read, shop.ids(), shop.owner()) == ([0, 1, 2, 3, 4], [1, 2, 3, 4], None)


@pytest.mark.clause("run.record.skipped-count")
def test_rows_bytes_and_skipped_inputs_are_summed_over_every_commit(shop: Shop, unit: int) -> None:
    limit(shop.store.here, unit)
    sixteen(shop, skipped=2)

    row = shop.run()

    assert len(commits(shop)) == 4
    assert (row.rows, row.skipped) == (16, 32)
    assert row.bytes == sum(marker.size for marker in commits(shop))
