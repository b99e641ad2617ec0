"""What the row of a table's owner says that nothing compares: its scope, and the input it was opened on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from engine.ports import Call, Statement
from engine.rewind import rewind
from engine.shapes import RunStatus
from engine.sql import call
from tests.pipeline.conftest import Shop, orders

if TYPE_CHECKING:
    from engine.ports import Row


def failing_at(shop: Shop, page: int, *, name: str = "orders") -> Row:
    """The scope and the input hash of the owner that a run leaves which fails at `page`."""
    shop.feed.serves(*(orders(number) for number in range(page + 1)))
    shop.feed.failures = {page: ValueError("the page")}
    (row,) = shop.fire(shop.table(name)).runs
    assert row.status is RunStatus.FAILED
    asking = Statement("ask", "SELECT scope, input_hash FROM owners", (), reads=True, durable=False)
    (owner,) = shop.store.here.profile.database.run(Call(asking, {}))[0]
    return owner


@pytest.mark.clause("run.own.execution-owner")
def test_an_owner_records_the_input_it_was_opened_on_and_no_resume_compares_it(shop: Shop) -> None:
    _, fresh = failing_at(shop, 1)
    shop.run()
    _, moved = failing_at(shop, 3)

    assert None not in (fresh, moved)
    assert fresh != moved
    assert shop.run().replayed == 1


@pytest.mark.clause("run.own.host-scope")
@pytest.mark.parametrize("name", ["orders", "Orders_2"])
def test_a_tables_owner_is_kept_under_the_tables_name_as_it_is_declared(shop: Shop, name: str) -> None:
    scope, _ = failing_at(shop, 1, name=name)

    assert scope == f"table:{name}"


@pytest.mark.clause("run.own.rewind-record")
def test_the_row_of_a_rewound_table_stands_under_its_scope(shop: Shop) -> None:
    failing_at(shop, 1)
    owner = shop.owner()
    assert owner is not None

    row = rewind(shop.store.here, owner.execution_id, reason="over", force=True, pipelines={"orders": "shop"})

    assert shop.store.run(row.run_id) == row
    assert (row.table, row.pipeline_id, row.host_scope) == ("orders", "shop", None)
    assert (row.execution_id, row.plan_ref, row.started_at) == (owner.execution_id, owner.plan_ref, owner.opened_at)


@pytest.mark.clause("run.journal.substrate-port")
def test_an_execution_commits_the_position_it_came_to(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2))

    shop.run()

    ((cursor,),) = shop.store.here.profile.database.run(call("read_cursor", table_name="orders"))
    assert (cursor[1], json.loads(cursor[4])) == (shop.marker().seq, 2)
