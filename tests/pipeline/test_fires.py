"""A fire over a pipeline's tables: which runs it makes, under which ids, and what it comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import AuthExpired, Config, ExecutionPinMismatch
from engine.fires import Fires
from engine.pipeline.source import Secrets
from engine.shapes import FireState, Pull, RunStatus
from tests.pipeline.conftest import orders
from tests.stores import LEASE, Died

if TYPE_CHECKING:
    from engine.pipeline.declaration import Table
    from tests.pipeline.conftest import Shop


def two(shop: Shop) -> tuple[Table, Table]:
    """`customers`, fed by a script of its own, before `orders`."""
    shop.module.feeds["other"] = lambda _: iter([Pull(rows=[{"id": 9}])])
    return shop.table("customers", entry="other"), shop.table("orders")


def break_customers(shop: Shop, failure: Exception) -> None:
    def failing(_: Any) -> Any:
        raise failure

    shop.module.feeds["other"] = failing


def dies_firing(shop: Shop, *, key: str) -> None:
    """A process lands one of two pages under `key` and is killed; its lease is over."""
    shop.feed.serves(orders(1), orders(2))
    shop.feed.failures = {1: Died()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fires, "end", lambda *_, **__: None)  # a process that is killed ends nothing
        with pytest.raises(Died):
            shop.fire(shop.table(), idempotency_key=key)
    shop.store.here.keeper.stop()
    shop.store.clock.advance(LEASE + 1)


def test_tables_run_in_their_order_and_one_that_fails_stops_no_other(shop: Shop) -> None:
    customers, orders_table = two(shop)
    break_customers(shop, AuthExpired("the key has run out"))
    shop.feed.serves(orders(1))

    outcome = shop.fire(customers, orders_table)

    assert [(run.table, run.status) for run in outcome.runs] == [
        ("customers", RunStatus.FAILED),
        ("orders", RunStatus.SUCCESS),
    ]
    assert outcome.runs[0].error is not None
    assert outcome.runs[0].error["tag"] == "AuthExpired"
    assert (outcome.state, outcome.exit_code) == (FireState.FAILED, 1)
    assert Fires(shop.store.here.profile.database).read(outcome.fire_id).state is FireState.FAILED
    assert shop.ids() == [1]


def test_a_table_that_is_refused_stops_no_other_either(shop: Shop) -> None:
    customers, orders_table = two(shop)
    shop.feed.serves(orders(1), orders(2))
    shop.feed.failures = {1: ValueError("second page")}
    shop.fire(orders_table)

    outcome = shop.fire(shop.table("orders", primary_key=("id",)), customers)

    assert [type(refusal) for refusal in outcome.refusals] == [ExecutionPinMismatch]
    assert [(run.table, run.status) for run in outcome.runs] == [("customers", RunStatus.SUCCESS)]
    assert outcome.state is FireState.FAILED


def test_every_run_carries_the_id_of_its_fire(shop: Shop) -> None:
    shop.feed.serves(orders(1))

    outcome = shop.fire(*two(shop))

    assert {run.fire_id for run in outcome.runs} == {outcome.fire_id}
    assert {run.run_id for run in shop.store.here.runs.of_fire(outcome.fire_id)} == {run.run_id for run in outcome.runs}


def test_a_run_id_that_succeeded_is_returned_again_and_nothing_is_asked(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    first = shop.fire(shop.table(), run_id="monday")
    shop.feed.serves(orders(1), orders(2))

    again = shop.fire(shop.table(), run_id="monday")

    assert [run.run_id for run in again.runs] == ["monday"]
    assert [run.record for run in again.runs] == [run.record for run in first.runs]
    assert (again.state, again.exit_code, shop.feed.read) == (FireState.COMPLETED, 0, [])


def test_a_run_id_that_failed_is_tried_again_as_its_replay(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2))
    tried = []
    for _ in range(3):
        shop.feed.failures = {1: ValueError("second page")}
        tried += [run.run_id for run in shop.fire(shop.table(), run_id="monday").runs]
    shop.feed.failures = {}

    outcome = shop.fire(shop.table(), run_id="monday")

    assert tried == ["monday", "monday.replay-1", "monday.replay-2"]
    assert [(run.run_id, run.status) for run in outcome.runs] == [("monday.replay-3", RunStatus.SUCCESS)]
    assert [run.run_id for run in shop.fire(shop.table(), run_id="monday").runs] == ["monday.replay-3"]


def test_with_several_tables_each_has_an_id_of_its_own(shop: Shop) -> None:
    customers, orders_table = two(shop)
    break_customers(shop, AuthExpired("the key has run out"))
    shop.feed.serves(orders(1))
    first = shop.fire(customers, orders_table, run_id="monday")
    shop.feed.read.clear()

    second = shop.fire(*two(shop), run_id="monday")

    assert [run.run_id for run in first.runs] == ["monday.customers", "monday.orders"]
    assert [run.run_id for run in second.runs] == ["monday.customers.replay-1", "monday.orders"]
    assert (second.state, shop.feed.read) == (FireState.COMPLETED, [])


def test_a_run_id_that_grows_too_long_with_one_table_is_refused_before_any_is_asked(shop: Shop) -> None:
    customers, orders_table = two(shop)

    with pytest.raises(Config, match="customers has 131 characters; choose one that keeps it to 128"):
        shop.fire(orders_table, customers, run_id="r" * 121)

    assert shop.feed.read == []
    assert shop.store.here.runs.since(0, ceiling=1) == []


def test_a_repeated_idempotency_key_returns_the_same_fire_and_asks_nothing(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    first = shop.fire(shop.table(), idempotency_key="k")
    shop.feed.read.clear()

    again = shop.fire(shop.table(), idempotency_key="k", engine=shop.store.engine())

    assert (again.fire_id, again.state) == (first.fire_id, FireState.COMPLETED)
    assert [run.run_id for run in again.runs] == [run.run_id for run in first.runs]
    assert (shop.feed.read, shop.marker().seq) == ([], 1)


def test_a_repeated_key_of_a_failed_fire_returns_its_failure(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    shop.feed.failures = {0: ValueError("first page")}
    first = shop.fire(shop.table(), idempotency_key="k")

    again = shop.fire(shop.table(), idempotency_key="k")

    assert (again.state, again.exit_code) == (FireState.FAILED, 1)
    assert [run.record for run in again.runs] == [run.record for run in first.runs]


def test_another_key_is_another_fire(shop: Shop) -> None:
    shop.feed.serves(orders(1))

    fires = {shop.fire(shop.table(), idempotency_key=key).fire_id for key in ("k", "l")}

    assert len(fires) == 2


def test_an_interrupted_fire_is_resumed_by_its_key(shop: Shop) -> None:
    dies_firing(shop, key="k")

    resumed = shop.fire(shop.table(), idempotency_key="k", engine=shop.store.engine())

    assert resumed.state is FireState.COMPLETED
    assert [run.status for run in resumed.runs][-1] is RunStatus.SUCCESS
    assert (shop.feed.read, shop.ids()) == ([0, 1, 1], [1, 2])


def test_a_dead_fire_is_failed_and_the_next_adopts_what_its_table_left_pending(shop: Shop) -> None:
    dies_firing(shop, key="dead")

    outcome = shop.fire(shop.table(), engine=shop.store.engine())

    assert (outcome.state, outcome.runs[0].replayed) == (FireState.COMPLETED, 1)
    dead = shop.fire(shop.table(), idempotency_key="dead", engine=shop.store.engine())
    assert dead.state is FireState.FAILED


def test_a_source_is_handed_no_secret_it_does_not_name(shop: Shop) -> None:
    shop.feed.serves(orders(1))

    shop.fire(shop.table(), secrets={"API_TOKEN": "s3cr3t"})

    assert dict(shop.feed.asks[0].secrets) == dict(Secrets({}))
