"""Tables that a run replaces as a whole: only a complete inventory takes the old rows' place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.corpus.marker import Event
from engine.shapes import Pull, RunStatus, WriteMode
from tests.pipeline.conftest import orders

if TYPE_CHECKING:
    from tests.pipeline.conftest import Shop

REPLACED: Any = {"write_mode": WriteMode.REPLACE, "entry": "snapshots"}


def serve(shop: Shop, *pages: list[Any], complete: bool = True) -> None:
    """Serve `pages` as one inventory without a position."""
    last = len(pages) - 1
    shop.module.script = lambda _: iter(
        [
            Pull(rows=rows, position=n if n < last else None, more=n < last, snapshot_complete=complete and n == last)
            for n, rows in enumerate(pages)
        ]
    )


@pytest.mark.clause("run.advance.zero-row-commit", "run.advance.snapshot-completion")
def test_a_complete_empty_snapshot_empties_the_table_and_older_reads_keep_its_rows(shop: Shop) -> None:
    """The scenario: the current read is empty, a bounded read before the commit retains the older rows."""
    serve(shop, orders(1, 2))
    shop.run(**REPLACED)
    before = shop.marker().committed_at
    shop.store.clock.advance(60_000)
    serve(shop, [])

    row = shop.run(**REPLACED)

    assert (row.status, row.rows) == (RunStatus.SUCCESS, 0)
    assert shop.marker().event is Event.EMPTY_REPLACEMENT
    assert shop.read("SELECT id FROM orders") == []
    assert shop.read("SELECT id FROM orders ORDER BY id", as_of=before) == [(1,), (2,)]
    assert shop.read("SELECT id FROM orders ORDER BY id", as_of=shop.marker().committed_at - 1) == [(1,), (2,)]


@pytest.mark.clause("run.advance.snapshot-completion", "run.advance.zero-row-commit")
@pytest.mark.parametrize("rows", [[], orders(9)], ids=["empty", "with rows"])
def test_an_inventory_that_ended_early_replaces_nothing(shop: Shop, rows: list[Any]) -> None:
    serve(shop, orders(1, 2))
    shop.run(**REPLACED)
    serve(shop, rows, complete=False)

    row = shop.run(**REPLACED)

    assert row.status is RunStatus.FAILED
    assert row.error is not None
    assert "ended before its inventory was complete" in row.error["message"]
    assert (shop.ids(), shop.marker().seq) == ([1, 2], 1)


@pytest.mark.clause("run.advance.snapshot-completion")
def test_an_inventory_that_ended_early_is_asked_for_its_end_again(shop: Shop) -> None:
    """What ended early is not recorded: or every later run would end there too, without asking."""
    pages = [Pull(rows=orders(1), position=1, more=True), Pull(rows=orders(2), position=2)]
    shop.module.script = lambda _: iter(pages)
    assert shop.run(**REPLACED).status is RunStatus.FAILED
    shop.module.script = lambda _: iter([replace(pages[1], snapshot_complete=True)])

    row = shop.run(**REPLACED)

    assert (row.status, row.replayed, shop.ids()) == (RunStatus.SUCCESS, 1, [1, 2])


@pytest.mark.clause("run.advance.snapshot-completion")
def test_the_last_pull_of_several_says_whether_the_inventory_is_complete(shop: Shop) -> None:
    serve(shop, orders(1), [], orders(2, 3))

    row = shop.run(**REPLACED)

    assert (row.status, row.batches) == (RunStatus.SUCCESS, 3)
    assert shop.ids() == [1, 2, 3]


@pytest.mark.clause("run.advance.snapshot-completion")
def test_each_complete_inventory_takes_the_place_of_the_one_before(shop: Shop) -> None:
    for ids in ((1, 2, 3), (2,), (4, 5)):
        serve(shop, orders(*ids))
        shop.run(**REPLACED)

        assert shop.ids() == list(ids)


@pytest.mark.clause("run.advance.zero-row-commit")
def test_a_failed_pull_of_a_replacing_table_publishes_neither_rows_nor_position(shop: Shop) -> None:
    serve(shop, orders(1))
    shop.run(**REPLACED)

    def failing(_: Any) -> Any:
        yield Pull(rows=orders(2), position=1, more=True)
        raise ValueError("the second page")

    shop.module.script = failing
    row = shop.run(**REPLACED)

    assert row.status is RunStatus.FAILED
    assert (shop.ids(), shop.marker().seq) == ([1], 1)


@pytest.mark.clause("run.advance.snapshot-completion", "run.journal.replay-lands")
def test_a_resumed_inventory_is_as_complete_as_it_was_recorded(shop: Shop) -> None:
    def dying(ask: Any) -> Any:
        if ask.position is None:
            yield Pull(rows=orders(1), position=1, more=True)
        raise OSError("the second page")

    shop.module.script = dying
    shop.run(**REPLACED)
    shop.module.script = lambda _: iter([Pull(rows=orders(2), snapshot_complete=True)])

    row = shop.run(**REPLACED)

    assert (row.status, row.replayed, shop.ids()) == (RunStatus.SUCCESS, 1, [1, 2])
