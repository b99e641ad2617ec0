"""Unfinished chunks that are given up, or gone on with after all, and a table that goes with its plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import (
    ExecutionPending,
    ExecutionPinMismatch,
    ExecutionRewindNotPending,
    ExecutionRewindPlanCurrent,
    ExecutionRewindUnsafe,
    Permanent,
)
from engine.pipeline.chunks import Window
from engine.reset import drop
from engine.rewind import rewind, rewind_window
from engine.shapes import RunStatus
from tests.pipeline.conftest import day

if TYPE_CHECKING:
    from tests.pipeline.backfill.conftest import Archive


@pytest.mark.clause("run.own.pin-mismatch-recovery")
def test_a_rewind_of_a_window_retires_the_chunks_it_covers_and_no_other(archive: Archive) -> None:
    archive.past.failures |= {day(2): Permanent("gone"), day(4): Permanent("gone")}
    archive.backfill()
    changed = archive.table(primary_key=("id",))
    refused = archive.backfill(table=changed)
    assert [type(chunk.refusal) for chunk in refused.chunks if chunk.refusal] == [ExecutionPinMismatch] * 2
    assert "--rewind --reason TEXT" in str(refused.chunks[1].refusal)
    assert "run rewind" not in str(refused.chunks[1].refusal)

    rows = rewind_window(
        archive.shop.store.here, "orders", Window(day(1), day(3)), reason="a key", pipelines={"orders": "shop"}
    )

    (row,) = rows
    assert (row.status, row.table, row.chunk) == (RunStatus.CANCELED, "orders", f"{day(2)}..{day(3)}")
    assert (row.pipeline_id, row.reason) == ("shop", "a key")
    assert [owner.scope for owner in archive.shop.store.here.owners.all()] == [f"chunk:orders:{day(4)}..{day(5)}"]
    archive.past.asked.clear()
    again = archive.backfill(table=changed)
    assert (again.done, archive.past.windows) == (4, [day(2)])


@pytest.mark.clause("run.own.pin-mismatch-recovery")
def test_restoring_the_declaration_and_repeating_clears_a_pending_chunk(archive: Archive) -> None:
    archive.past.failures[day(2)] = Permanent("gone")
    archive.backfill()
    assert archive.backfill(table=archive.table(primary_key=("id",))).exit_code == 1

    ended = archive.backfill()

    assert ended.exit_code == 0
    assert archive.shop.store.here.owners.all() == []
    assert archive.shop.ids() == archive.ids


@pytest.mark.clause("run.own.rewind-not-pending")
def test_a_rewind_by_execution_refuses_a_chunk_and_names_its_windows(archive: Archive) -> None:
    archive.past.failures[day(2)] = Permanent("gone")
    archive.backfill()
    (owner,) = archive.shop.store.here.owners.all()

    with pytest.raises(ExecutionRewindNotPending, match=f"backfill ID --table orders --from {day(2)} --to {day(3)}"):
        rewind(archive.shop.store.here, owner.execution_id, reason="no", force=True)


@pytest.mark.clause("run.own.rewind-plan-current", "run.own.rewind-unsafe")
def test_a_rewind_of_a_window_refuses_what_a_repeat_would_resume_and_what_is_alive(archive: Archive) -> None:
    archive.past.failures[day(2)] = Permanent("gone")
    archive.backfill()
    engine, everything = archive.shop.store.here, Window(day(1), day(6))

    with pytest.raises(ExecutionRewindPlanCurrent):
        rewind_window(engine, "orders", everything, reason="no", pipelines={})

    refusals: list[str] = []

    def rewinds(since: Any, page: int) -> None:
        if (since, page) == (day(2), 1):
            with pytest.raises(ExecutionRewindUnsafe):
                rewind_window(engine, "orders", everything, reason="no", pipelines={}, force=True)
            refusals.append(since)

    archive.past.before = rewinds
    assert archive.backfill(engine=archive.shop.store.engine()).exit_code == 0
    assert refusals == [day(2)]


def test_a_table_is_not_dropped_under_an_unfinished_chunk_and_its_plans_go_with_it(archive: Archive) -> None:
    archive.past.failures[day(2)] = Permanent("gone")
    archive.backfill()
    with pytest.raises(ExecutionPending, match="--rewind --reason TEXT --force"):
        drop(archive.shop.store.here, "orders")
    archive.backfill()

    drop(archive.shop.store.here, "orders")

    assert archive.backfill().rows == len(archive.ids)
    assert archive.shop.ids() == archive.ids
