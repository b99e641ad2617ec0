"""A run that waits on its way counts once what each of its pulls brought, while it waits and in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import RateLimited
from engine.shapes import RunStatus
from tests.pipeline.conftest import orders

if TYPE_CHECKING:
    from tests.clocks import SettableClock
    from tests.pipeline.conftest import Shop

HOUR = 3_600_000
KEY = "ghp_" + "a1B2" * 9


@pytest.mark.clause("run.record.skipped-count", "run.record.columns")
def test_what_was_skipped_and_masked_before_a_wait_is_on_the_row_meanwhile_and_counted_once(
    shop: Shop, clock: SettableClock
) -> None:
    shop.feed.serves([{"id": 1, "note": f"{KEY} {KEY}"}], orders(2), skipped=3)
    shop.feed.failures = {1: RateLimited("429", wait_ms=HOUR)}
    (waits,) = shop.fire(shop.table(), engine=shop.store.engine(), run_id="r").runs
    recorded = shop.store.run("r")
    clock.advance(HOUR)

    (row,) = shop.fire(shop.table(), run_id="r").runs

    assert waits.status is RunStatus.WAITING
    for meanwhile in (waits, recorded):
        assert (meanwhile.skipped, meanwhile.masked, meanwhile.batches, meanwhile.rows) == (3, 2, 1, 0)
    assert (row.status, row.replayed, row.rows) == (RunStatus.SUCCESS, 1, 2)
    assert (row.skipped, row.masked, row.batches) == (6, 2, 2)
