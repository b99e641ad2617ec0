"""What a column lost on its way stands in the manifest of its commit, and run history reads it from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.diffs import joined
from engine.shapes import Pull, RunStatus
from tests.pipeline.conftest import orders

if TYPE_CHECKING:
    from tests.pipeline.conftest import Shop

NESTED: Any = [{"id": 1, "lines": [{"sku": "a"}]}]


def diffs(shop: Shop, *run_ids: str) -> list[list[dict[str, Any]]]:
    found = joined(shop.store.here.profile, [shop.store.run(run_id) for run_id in run_ids])
    return [found[run_id] for run_id in run_ids]


@pytest.mark.clause("run.record.schema-diff-home", "run.record.schema-diff-shape")
def test_run_history_and_the_manifest_carry_the_same_event_and_a_failed_stage_carries_none(shop: Shop) -> None:
    """The scenario: a nested column downgrades and its table commits."""
    shop.feed.serves(NESTED, orders(2))
    shop.feed.failures = {1: ValueError("second page")}
    shop.run(run_id="failed")
    shop.run(run_id="landed")

    failed, landed = diffs(shop, "failed", "landed")

    assert failed == []
    assert landed == list(shop.marker().downgrades)
    ((event,)) = landed
    assert (event["table"], event["path"], event["landed"]) == ("orders", "lines", "json")
    assert all(isinstance(event[name], str) and event[name] for name in ("source", "reason"))


@pytest.mark.clause("run.record.schema-diff-home")
def test_each_run_has_its_own_events_however_many_runs_lie_between(shop: Shop) -> None:
    for number, rows in enumerate((NESTED, orders(2), NESTED, orders(3))):
        shop.store.clock.advance(1_000)
        shop.module.script = lambda _, rows=rows: iter([Pull(rows=rows)])
        assert shop.run(run_id=f"r-{number}").status is RunStatus.SUCCESS

    assert [len(events) for events in diffs(shop, "r-3", "r-2", "r-1", "r-0")] == [0, 1, 0, 1]
    assert [len(events) for events in diffs(shop, "r-0")] == [1]
