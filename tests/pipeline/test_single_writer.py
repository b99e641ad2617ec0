"""Who may move a table's position: of what cannot be ordered, only the attempt whose lease is unbroken."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.corpus.marker import find, history
from engine.errors import StorageBindingUnavailable
from engine.host import Engine, Settings
from engine.pipeline.reconcile import caching, reconciled
from engine.pipeline.source import Secrets
from engine.pipeline.table_run import TableRun
from engine.shapes import RunStatus, WriteMode
from engine.sql import call
from tests.pipeline.conftest import Silent, day, orders
from tests.stores import LEASE, PROJECT, Store

if TYPE_CHECKING:
    from tests.pipeline.conftest import Shop


@pytest.mark.clause("run.advance.concurrency-by-kind", "run.own.one-commit-per-run")
@pytest.mark.parametrize("declared", [{}, {"incremental": "at"}], ids=["opaque", "monotonic"])
def test_an_attempt_whose_table_is_taken_while_it_is_staged_commits_nothing(
    shop: Shop, declared: dict[str, Any]
) -> None:
    """It asks its source for nothing more, so only the look before the marker tells it."""
    shop.feed.serves(orders(1, at=day(2)), [])

    def look(*_: object) -> None:
        if shop.feed.read == [0, 1]:
            _taken_over_and_left(shop, declared)

    (late,) = shop.fire(shop.table(**declared), run_id="late", look=look).runs

    assert late.error is not None
    assert (late.status, late.error["name"]) == (RunStatus.FAILED, "ExecutionSuperseded")
    assert list(history(shop.store.here.profile.objects, "orders")) == []
    assert shop.owner() is not None


def _taken_over_and_left(shop: Shop, declared: dict[str, Any]) -> None:
    """Another engine takes the table once the lease has lapsed, and fails where the source is asked anew.

    It is no fire, which would clear the staged parts of a run that was given up: they are all there to be committed.
    """
    shop.store.here.keeper.stop()
    shop.store.clock.advance(LEASE + 1)
    shop.feed.failures = {1: ValueError("second page")}
    taker = TableRun(shop.store.engine(), shop.table(**declared), secrets=Secrets({}), watcher=Silent())
    row = taker.run("taker", fire_id="f")
    assert (row.status, row.replayed) == (RunStatus.FAILED, 1)
    assert shop.staged() == ["late/000000.arrow"]


@pytest.mark.clause("run.advance.concurrency-by-kind")
@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.REPLACE])
def test_a_position_without_order_that_another_state_moved_is_not_written_over(shop: Shop, mode: WriteMode) -> None:
    """Leases are of one state: over a corpus that two share, the marker decides who was first."""
    elsewhere = Store("sqlite", shop.base / "elsewhere", shop.store.clock, dict).initialized()
    profile = replace(elsewhere.profile(), objects=shop.store.here.profile.objects)
    other = Engine(profile, Settings(PROJECT, "site-2"), clock=shop.store.clock)
    shop.feed.serves(orders(1), orders(2))

    def look(*_: object) -> None:
        if shop.feed.read == [0]:
            shop.run(engine=other, run_id="first", write_mode=mode)

    (late,) = shop.fire(shop.table(write_mode=mode), run_id="late", look=look).runs

    assert late.error is not None
    assert (late.status, late.error["name"]) == (RunStatus.FAILED, "PositionOvertaken")
    assert "run first of site site-2" in late.error["message"]
    assert (shop.ids(), shop.marker().by.run_id) == ([1, 2], "first")
    assert shop.owner() is not None
    shop.feed.serves(orders(1), orders(2), orders(3))
    assert shop.run(write_mode=mode).status is RunStatus.SUCCESS
    assert shop.feed.read == [2]
    assert shop.ids() == ([1, 2, 3] if mode is WriteMode.APPEND else [3])
    other.close()
    elsewhere.close()


@pytest.mark.clause("run.own.stage-discard")
@pytest.mark.parametrize("failure", [None, ValueError("second page")], ids=["a success", "a failure"])
def test_what_the_disk_does_not_let_go_of_a_stage_is_left_and_the_run_ends_as_it_would(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, failure: ValueError | None
) -> None:
    shop.feed.serves(orders(1), orders(2))
    shop.feed.failures = {1: failure} if failure else {}
    kept = shutil.rmtree

    def refuses(path: Path, **how: Any) -> None:
        if shop.store.here.profile.scratch in Path(path).parents:
            raise OSError(30, "Read-only file system")
        kept(path, **how)

    with monkeypatch.context() as patched:
        (run,) = shop.fire(shop.table(), look=lambda *_: patched.setattr(shutil, "rmtree", refuses)).runs

    assert shutil.rmtree is kept
    assert run.status is (RunStatus.FAILED if failure else RunStatus.SUCCESS)
    assert run.error is None or "second page" in run.error["message"]
    assert shop.staged() != []
    assert shop.run().status is RunStatus.SUCCESS
    assert (shop.staged(), shop.ids()) == ([], [1, 2])


@pytest.mark.clause("run.advance.commit-with-rows", "run.advance.concurrency-by-kind")
def test_the_catalog_never_caches_an_older_marker_over_a_newer_one(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    shop.run()
    shop.feed.serves(orders(1), orders(2))
    shop.run()
    older = find(shop.store.here.profile.objects, "orders", 1)
    assert older is not None

    shop.store.here.profile.database.run(caching("orders", older))

    cached = shop.store.here.profile.database.run(call("read_cursor", table_name="orders"))[0][0]
    assert (cached[1], cached[2]) == (2, shop.marker().by.commit_id)


@pytest.mark.clause("run.advance.commit-with-rows")
def test_a_marker_that_another_machine_made_is_cached_by_whoever_next_looks(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    shop.run()
    database = shop.store.here.profile.database
    database.run(call("forget_cursor", table_name="orders"))

    newest = reconciled(shop.store.here, "orders")

    assert newest == shop.marker()
    assert database.run(call("read_cursor", table_name="orders"))[0][0][1] == 1


@pytest.mark.clause("run.retry.step-failed")
def test_a_run_tells_what_it_stumbled_over_though_nobody_tells_if_it_holds_its_table(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise StorageBindingUnavailable(place="here", reason="no answer to the look", applied="no")

    shop.feed.serves(orders(1), orders(2))
    shop.feed.failures = {1: ValueError("second page")}
    monkeypatch.setattr(shop.store.here.owners, "check", away)

    run = shop.run()

    assert run.error is not None
    assert (run.status, "second page" in run.error["message"]) == (RunStatus.FAILED, True)
