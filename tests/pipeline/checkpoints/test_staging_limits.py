"""What a run may stage between two commits, who may commit on the way, and what a failure at the limit leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.pipeline.checkpoints import Limits, due, position_addressed
from engine.pipeline.declaration import HttpSource, Paginate, Table
from engine.pipeline.sources import open_source
from engine.shapes import RunStatus, WriteMode
from tests.pipeline.checkpoints.conftest import commits, limit, page, sixteen
from tests.pipeline.conftest import orders
from tests.stores import LEASE, Died

if TYPE_CHECKING:
    from tests.pipeline.conftest import Api, Shop

GIB = 1 << 30


@pytest.mark.clause("run.own.staged-bytes", "run.own.checkpoint-commit")
def test_a_run_stages_a_gibibyte_at_most_and_half_of_one_makes_a_checkpoint_due() -> None:
    assert Limits() == Limits(staged=GIB, checkpoint=GIB // 2)
    assert not due(Limits(), staged=GIB // 2 - 1, following=1)
    assert due(Limits(), staged=GIB // 2, following=1)


@pytest.mark.clause("run.own.checkpoint-frontier")
@pytest.mark.parametrize(("frontier", "lowest", "comes"), [
    (1, 2, True), (2, 2, False), (2, 1, False),
    ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00", False),
    ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.1Z", True),
])  # fmt: skip
def test_a_checkpoint_waits_for_a_pull_past_the_frontier(frontier: Any, lowest: Any, comes: bool) -> None:
    assert due(Limits(10, 5), staged=5, following=1, frontier=frontier, lowest=lowest) is comes


@pytest.mark.clause("run.own.staged-bytes")
def test_nothing_staged_is_nothing_to_commit() -> None:
    assert not due(Limits(10, 5), staged=0, following=11)


@pytest.mark.clause("run.own.staged-bytes", "run.own.pin-release", "run.own.checkpoint-scope")
def test_a_replacing_table_past_the_limit_fails_and_is_pulled_afresh(shop: Shop, unit: int) -> None:
    """The scenario: three pulls of a replacing table, each two fifths of the limit."""
    shop.feed.serves(orders(1))
    shop.run(write_mode=WriteMode.REPLACE)
    stood = shop.marker()
    shop.feed.serves(orders(1), page(1), page(2), page(3))
    limit(shop.store.here, unit, staged=2.5, checkpoint=1.25)

    rows = [shop.run(write_mode=WriteMode.REPLACE) for _ in range(2)]

    for row in rows:
        assert row.error is not None
        assert (row.status, row.error["name"], row.error["tag"]) == (
            RunStatus.FAILED, "RunStagedBytesExceeded", "Permanent")  # fmt: skip
    assert shop.marker() == stood, "the cursor stays where it stood"
    assert shop.feed.read == [1, 2, 3, 1, 2, 3]
    assert len({row.execution_id for row in rows}) == 2
    assert (shop.owner(), shop.staged()) == (None, [])


@pytest.mark.clause("run.own.staged-bytes")
def test_the_refusal_says_how_much_it_was_and_how_to_load_it(shop: Shop, unit: int) -> None:
    limit(shop.store.here, unit, staged=1.5, checkpoint=1.4)
    shop.feed.serves(page(1), page(2))

    row = shop.run(entry="snapshots")

    assert row.error is not None
    assert "contextful pipeline backfill shop --from A --to B" in row.error["message"]
    assert f"{int(1.5 * unit)} are allowed" in row.error["message"]


@pytest.mark.clause("run.own.staged-bytes", "run.own.pin-release", "run.own.checkpoint-landed")
def test_a_pull_past_the_limit_leaves_earlier_checkpoints_and_releases_the_owner(shop: Shop, unit: int) -> None:
    limit(shop.store.here, unit, staged=2.5, checkpoint=1.9)
    shop.feed.serves(page(1), page(2), page(3), page(7))
    large = [row | {"text": row["text"] + row["text"][::-1] * 5} for row in page(3)]
    shop.feed.pages[2] = large

    row = shop.run()

    assert row.error is not None
    assert (row.error["name"], row.rows) == ("RunStagedBytesExceeded", 2)
    assert [marker.position for marker in commits(shop)] == [2]
    assert shop.owner() is None


@pytest.mark.clause("run.own.checkpoint-scope")
@pytest.mark.parametrize(("by", "addressed"), [
    ("next-url", False), ("link-header", False), ("page", True), ("offset", True), ("token", True), (None, False),
])  # fmt: skip
def test_pages_are_addressed_by_number_offset_and_token_and_not_by_links(by: Any, addressed: bool) -> None:
    paginate = by and Paginate(by=by, field="next", param="at", limit_param="n", limit=2, start=1)
    table = Table("orders", "shop", HttpSource("http://127.0.0.1:9/", paginate=paginate), content_hash="")

    assert position_addressed(table, open_source(table)) is addressed


@pytest.mark.clause("run.own.checkpoint-scope")
@pytest.mark.parametrize(("declared", "addressed"), [
    ({}, True), ({"incremental": "at"}, True), ({"write_mode": WriteMode.REPLACE}, False),
    ({"entry": "snapshots"}, False), ({"entry": "moving"}, False),
])  # fmt: skip
def test_a_replacement_a_snapshot_and_an_unjournaled_source_commit_once(
    shop: Shop, declared: dict[str, Any], addressed: bool
) -> None:
    table = shop.table(**declared)

    assert position_addressed(table, open_source(table)) is addressed


@pytest.mark.clause("run.own.checkpoint-scope", "run.own.one-commit-per-run")
def test_a_walk_over_links_that_dies_lands_each_listed_row_once(shop: Shop, api: Api) -> None:
    """The scenario: the walk dies on its third page, the listing gains a first row."""
    api.pages = [page(1, 2), page(3, 4), page(5, 6)]
    elsewhere = shop.store.stalled()
    limit(elsewhere, 1, staged=GIB, checkpoint=1)
    with pytest.raises(Died):
        shop.fire(api.table(), engine=elsewhere, look=_dying_after_two())
    api.pages = [page(0, 1), page(2, 3), page(5, 6)]
    shop.store.clock.advance(LEASE + 1)
    limit(shop.store.here, 1, staged=GIB, checkpoint=1)

    (row,) = shop.fire(api.table()).runs

    assert (row.status, row.replayed) == (RunStatus.SUCCESS, 2)
    assert shop.ids() == [1, 2, 3, 4, 5, 6]
    assert len(commits(shop)) == 1


def _dying_after_two() -> Any:
    def look(_: Any, landing: Any) -> None:
        if landing.number == 1:
            raise Died

    return look


@pytest.mark.clause("run.own.checkpoint-scope", "run.own.checkpoint-commit")
def test_a_small_walk_needs_no_checkpoint(shop: Shop, unit: int) -> None:
    sixteen(shop)
    limit(shop.store.here, unit, staged=40, checkpoint=20)

    shop.run()

    assert len(commits(shop)) == 1


@pytest.mark.clause("run.own.pin-release")
def test_a_resumed_attempt_that_finds_and_records_nothing_releases_its_owner(shop: Shop) -> None:
    """A process that died before its first page was recorded left nothing that a mended declaration must wait for."""
    elsewhere = shop.store.stalled()
    shop.feed.serves(orders(1))
    shop.feed.failures = {0: Died()}
    with pytest.raises(Died):
        shop.fire(shop.table(), engine=elsewhere)
    shop.store.clock.advance(LEASE + 1)
    shop.feed.failures = {0: ValueError("still no page")}

    failed = shop.run()

    assert failed.status is RunStatus.FAILED
    assert shop.owner() is None


@pytest.mark.clause("run.own.pin-release")
def test_a_resumed_attempt_that_fails_before_it_replays_keeps_what_is_recorded(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2))
    shop.feed.failures = {1: ValueError("second page")}
    shop.run()
    owner = shop.owner()

    shop.feed.failures = {1: ValueError("second page again")}
    shop.run()

    assert owner is not None
    assert shop.owner() is not None
    assert shop.store.recorded(owner.execution_id) == ["pull:0"]
    assert shop.run().replayed == 1


@pytest.mark.clause("run.own.pin-release", "run.own.source-stage-schema")
def test_a_type_refused_behind_a_checkpoint_releases_the_owner_and_leaves_cursor_and_rows(
    shop: Shop, unit: int
) -> None:
    limit(shop.store.here, unit, staged=8.4, checkpoint=1.9)
    shop.feed.serves(page(1), page(2), page(3), [{"id": "four", "at": "x", "text": ""}])

    refused = shop.run()

    assert refused.error is not None
    assert (refused.error["name"], refused.error["tag"]) == ("StoreSchemaIncompatible", "SchemaIncompatible")
    assert (shop.owner(), shop.marker().position, shop.ids()) == (None, 2, [1, 2])
    shop.feed.pages[3] = page(4)
    mended = shop.run()
    assert (mended.replayed, mended.rows, shop.ids()) == (0, 2, [1, 2, 3, 4])
    assert mended.execution_id != refused.execution_id
