"""A table's owner: what it pins, what holds it, what lets it go."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import ExecutionLive, ExecutionPinMismatch
from engine.pipeline.sources import open_source
from engine.rewind import rewind
from engine.shapes import Pull, RunStatus
from engine.sql import call
from tests.pipeline.conftest import MODULE, Shop, day, orders
from tests.stores import LEASE, Died

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.owners import Owner
    from engine.pipeline.source import Ask


def pending(shop: Shop, **declared: Any) -> Owner:
    """Fail a run at its second page; the first is recorded."""
    shop.feed.serves(orders(1), orders(2))
    shop.feed.failures = {1: ValueError("second page")}
    assert shop.run(**declared).status is RunStatus.FAILED
    owner = shop.owner()
    assert owner is not None
    return owner


@pytest.mark.clause("run.own.execution-owner", "run.own.admission-pin")
def test_a_tables_owner_pins_connector_world_declaration_and_input(shop: Shop) -> None:
    table = shop.table()
    connector = open_source(table).connector

    owner = pending(shop)

    assert owner.scope == "table:orders"
    assert owner.plan_ref == table.content_hash
    for pinned in (connector.id, connector.version, connector.world, connector.hash, table.content_hash):
        assert json.dumps(pinned)[1:-1] in owner.pins


@pytest.mark.clause("run.own.pin-release", "run.own.retirement")
def test_success_releases_the_owner_and_its_recorded_work(shop: Shop) -> None:
    held: list[Owner | None] = []
    shop.feed.serves(orders(1))

    shop.fire(shop.table(), look=lambda *_: held.append(shop.owner()))

    assert held[0] is not None
    assert shop.owner() is None
    assert shop.store.here.profile.journal.entries(held[0].execution_id) == []


@pytest.mark.clause("run.own.pin-release")
@pytest.mark.parametrize("pages", [[], [[], []]], ids=["at the first pull", "after empty pulls"])
def test_a_failure_before_anything_is_recorded_releases_the_owner(shop: Shop, pages: list[Any]) -> None:
    shop.feed.serves(*pages, orders(1))
    shop.feed.failures = {len(pages): ValueError("page")}

    row = shop.run()

    assert (row.status, shop.owner()) == (RunStatus.FAILED, None)


@pytest.mark.clause("run.own.pin-release", "run.retry.partial-failure")
def test_a_failure_after_a_recorded_pull_holds_the_owner_for_its_resumption(shop: Shop) -> None:
    owner = pending(shop)

    resumed = shop.run()

    assert resumed.execution_id == owner.execution_id
    assert (resumed.status, resumed.replayed, shop.owner()) == (RunStatus.SUCCESS, 1, None)


@pytest.mark.clause("run.own.pin-release")
def test_a_resumption_that_fails_again_still_holds_the_owner(shop: Shop) -> None:
    owner = pending(shop)
    shop.feed.failures = {1: ValueError("second page, again")}

    assert shop.run().status is RunStatus.FAILED

    assert shop.owner() == replace(owner, attempt=None)


@pytest.mark.clause("run.own.source-stage-schema", "run.own.pin-release")
def test_a_recorded_pull_that_the_schema_refuses_retires_the_owner_and_changes_nothing(shop: Shop) -> None:
    shop.feed.serves(orders(1), [{"id": "two", "at": day(2)}])

    row = shop.run()

    assert row.error is not None
    assert row.error["name"] == "StoreSchemaIncompatible"
    assert shop.owner() is None
    assert list(shop.store.here.profile.objects.list("orders/")) == []


@pytest.mark.clause("run.own.source-stage-schema", "run.own.pin-release")
def test_a_type_declared_too_late_retires_the_owner(shop: Shop) -> None:
    def source(_: Ask) -> Iterator[Pull]:
        yield Pull(rows=[{"id": 1, "paid": None}], position=1, more=True)
        yield Pull(rows=[{"id": 2, "paid": 5}], position=2, types={"paid": "int64"})

    shop.module.script = source

    row = shop.run()

    assert row.error is not None
    assert (row.error["name"], shop.owner()) == ("LateType", None)


@pytest.mark.clause("run.own.retirement", "run.own.execution-id-keys-the-journal")
def test_a_later_fire_is_a_fresh_execution_even_at_an_identical_position(shop: Shop) -> None:
    shop.feed.serves(orders(1, at=day(1)))

    first, second = shop.run(incremental="at"), shop.run(incremental="at")

    assert first.execution_id != second.execution_id
    assert shop.feed.read == [0, 0]
    assert second.replayed == 0


@pytest.mark.clause("run.own.retirement", "run.advance.commit-with-rows")
def test_the_owner_retires_and_the_position_is_cached_in_one_batch(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.feed.serves(orders(1))
    database = shop.store.here.profile.database
    run = type(database).run
    batches: list[list[str]] = []

    def noted(self: Any, *calls: Any) -> Any:
        batches.append([c.statement.name for c in calls])
        return run(self, *calls)

    monkeypatch.setattr(type(database), "run", noted)
    shop.run()

    assert [batch for batch in batches if "retire_owner" in batch] == [b for b in batches if "cache_position" in b]


@pytest.mark.clause("run.own.marker-reconciles", "run.own.one-commit-per-run")
def test_a_crash_between_marker_and_catalog_replays_nothing_of_what_is_committed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.feed.serves(orders(1), orders(2))

    def die(*_: Any, **__: Any) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr("engine.execution.held.Held.retire", die)
        with pytest.raises(Died):
            shop.run(run_id="r", engine=shop.store.stalled())
    assert shop.owner() is not None
    shop.store.clock.advance(LEASE + 1)
    shop.feed.serves(orders(1), orders(2), orders(3))

    row = shop.run(engine=shop.store.engine())

    assert (row.status, row.replayed, row.rows) == (RunStatus.SUCCESS, 0, 1)
    assert (shop.feed.read, shop.ids(), shop.owner()) == ([2], [1, 2, 3], None)
    cached = shop.store.here.profile.database.run(call("read_cursor", table_name="orders"))[0][0]
    assert cached[1] == shop.marker().seq == 2


@pytest.mark.clause("run.own.marker-reconciles", "run.record.orphan-reap")
def test_an_engine_that_retires_a_dead_attempts_owner_closes_its_run_as_an_orphan(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    taker, dead = shop.store.engine(), shop.store.stalled()
    shop.feed.serves(orders(1))

    def die(*_: Any, **__: Any) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr("engine.execution.held.Held.retire", die)
        with pytest.raises(Died):
            shop.run(run_id="r", engine=dead)
    shop.store.clock.advance(LEASE + 1)

    row = shop.run(engine=taker)

    overtaken = taker.runs.get("r")
    assert (row.status, overtaken and overtaken.status) == (RunStatus.SUCCESS, RunStatus.PARTIAL_FAILURE)


@pytest.mark.clause("run.own.pinned-plan-changed", "run.own.pin-mismatch-recovery", "run.own.admission-pin")
@pytest.mark.parametrize("changed", ["declaration", "connector"])
def test_a_pin_that_moved_while_pending_refuses_before_anything_is_pulled(shop: Shop, changed: str) -> None:
    owner = pending(shop)
    declared: Any = {"primary_key": ("id",)} if changed == "declaration" else {}
    if changed == "connector":
        rebuild(shop)
    shop.feed.read.clear()

    with pytest.raises(ExecutionPinMismatch) as refusal:
        shop.run(run_id="refused", **declared)

    assert shop.feed.read == []
    facts = refusal.value
    assert (facts.scope, facts.execution_id, facts.pinned) == ("table:orders", owner.execution_id, owner.pins)
    assert facts.asked != facts.pinned
    assert "restore the recorded build and resume it" in str(facts)
    assert f"contextful run rewind {owner.execution_id}" in str(facts)
    row = shop.store.run("refused")
    assert (row.status, row.rows, row.ended_at is None) == (RunStatus.FAILED, 0, False)
    standing = shop.owner()
    assert standing is not None
    assert (standing.execution_id, standing.pins) == (owner.execution_id, owner.pins)


@pytest.mark.clause("run.own.pin-mismatch-recovery")
def test_the_recorded_declaration_restored_resumes_and_clears_the_way(shop: Shop) -> None:
    owner = pending(shop)
    with pytest.raises(ExecutionPinMismatch):
        shop.run(primary_key=("id",))

    restored = shop.run()
    changed = shop.run(primary_key=("id",))

    assert (restored.execution_id, restored.replayed) == (owner.execution_id, 1)
    assert (changed.status, changed.execution_id == owner.execution_id) == (RunStatus.SUCCESS, False)


@pytest.mark.clause("run.own.pin-mismatch-recovery")
def test_a_rewind_clears_the_way_for_the_changed_declaration(shop: Shop) -> None:
    owner = pending(shop)
    with pytest.raises(ExecutionPinMismatch):
        shop.run(primary_key=("id",))
    rewind(shop.store.here, owner.execution_id, reason="a key was declared", force=False)

    changed = shop.run(primary_key=("id",))

    assert (changed.status, changed.replayed) == (RunStatus.SUCCESS, 0)
    assert shop.ids() == [1, 2]


@pytest.mark.clause("run.own.admission-pin")
def test_a_connector_rebuilt_after_success_reaches_the_next_run(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    first = shop.run()
    rebuild(shop)

    second = shop.run()

    assert first.connector is not None
    assert second.connector is not None
    assert first.connector.hash != second.connector.hash


@pytest.mark.clause("run.own.scope-independence")
def test_a_finishing_table_releases_nothing_of_another_tables_execution(shop: Shop) -> None:
    owner = pending(shop)
    shop.module.feeds["other"] = lambda _: iter([Pull(rows=[{"id": 9}])])

    (row,) = shop.fire(shop.table("customers", entry="other")).runs

    assert row.status is RunStatus.SUCCESS
    assert shop.owner() == owner
    assert len(shop.store.here.profile.journal.entries(owner.execution_id)) > 0
    assert shop.run().replayed == 1


@pytest.mark.clause("run.own.live-owner", "run.own.execution-owner")
def test_a_table_that_a_live_run_holds_is_refused_naming_that_run(shop: Shop) -> None:
    refusals: list[ExecutionLive] = []

    def source(_: Ask) -> Iterator[Pull]:
        outcome = shop.fire(shop.table(), engine=shop.store.engine(), run_id="second")
        refusals.extend(r for r in outcome.refusals if isinstance(r, ExecutionLive))
        yield Pull(rows=orders(1))

    shop.module.script = source

    row = shop.run(run_id="first")

    assert row.status is RunStatus.SUCCESS
    assert [refusal.attempt for refusal in refusals] == ["first"]
    assert shop.ids() == [1]


def rebuild(shop: Shop) -> None:
    """Change the connector's code."""
    (shop.base / f"{shop.module.__name__}.py").write_text(MODULE + "\n# rebuilt\n")
