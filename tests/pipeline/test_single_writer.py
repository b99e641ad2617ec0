"""Who may move a table's position: of what cannot be ordered, only the attempt whose lease is unbroken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.corpus.marker import find, history
from engine.pipeline.reconcile import caching, reconciled
from engine.pipeline.source import Secrets
from engine.pipeline.table_run import TableRun
from engine.shapes import RunStatus
from engine.sql import call
from tests.pipeline.conftest import Silent, day, orders
from tests.stores import LEASE

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
