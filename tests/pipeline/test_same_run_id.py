"""The same request made twice at once: whoever comes second gives what the first came to, and lands nothing again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import NOT_NOW, Canceled, ExecutionLive
from engine.fires import Fires, keyed_fire_id
from engine.pins import Pins
from engine.shapes import FireState, RunStatus
from tests.pipeline.between import between_look_and_open
from tests.pipeline.conftest import orders
from tests.stores import LEASE, PROJECT

if TYPE_CHECKING:
    from engine.host import Engine
    from engine.pipeline.runner import Outcome
    from tests.pipeline.conftest import Shop


def fired_in_the_midst(shop: Shop, **asked: Any) -> tuple[Outcome, Outcome]:
    """A fire, and one of the same request that another process makes while the first is at its first page."""
    inner: list[Outcome] = []

    def beside(*_: Any) -> None:
        if not inner:
            inner.append(shop.fire(shop.table(), engine=shop.store.engine(), **asked))

    outer = shop.fire(shop.table(), look=beside, **asked)
    return outer, inner[0]


def begun(shop: Shop) -> tuple[Engine, str]:
    """Another process with a fire of the key at work, its engine's lease lapsing with the clock."""
    shop.feed.serves(orders(1))
    engine = shop.store.stalled()
    engine.leases.register()
    fires, fire_id = Fires(engine.profile.database), keyed_fire_id(project=PROJECT, pipeline="shop", key="k")
    fires.request(fire_id, pipeline_id="shop")
    assert fires.begin(fire_id, holder=engine.leases.holder)
    return engine, fire_id


def test_a_run_that_was_waited_for_is_the_answer_to_its_own_id(shop: Shop) -> None:
    shop.feed.serves(orders(1))
    table, other = shop.table(), shop.store.engine()
    pins = Pins(table.content_hash)
    held = other.hold("table:orders", pins, run=other.new_run("monday", plan_ref=table.content_hash, table="orders"))

    def patience(live: ExecutionLive) -> bool:
        assert live.attempt == "monday"
        held.retire(held.ended(RunStatus.SUCCESS))
        return True

    outcome = shop.fire(table, run_id="monday", await_live=patience)

    assert [(run.run_id, run.status) for run in outcome.runs] == [("monday", RunStatus.SUCCESS)]
    assert (outcome.exit_code, shop.feed.read) == (0, [])


def test_a_run_id_at_work_elsewhere_is_not_now_and_no_replay_is_recorded(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2))

    first, second = fired_in_the_midst(shop, run_id="monday")

    assert [(type(refusal), refusal.facts["attempt"]) for refusal in second.refusals] == [(ExecutionLive, "monday")]
    assert (second.runs, second.exit_code) == ((), NOT_NOW)
    assert [run.run_id for run in first.runs] == ["monday"]
    assert shop.store.here.runs.get("monday.replay-1") is None
    assert shop.ids() == [1, 2]


@pytest.mark.parametrize("failed_before", [False, True])
def test_a_run_that_comes_and_ends_between_look_and_open_is_the_answer(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, *, failed_before: bool
) -> None:
    shop.feed.serves(orders(1))
    if failed_before:
        shop.feed.failures = {0: ValueError("first page")}
        shop.fire(shop.table(), run_id="monday")
    answers: list[Outcome] = []
    between_look_and_open(
        monkeypatch,
        lambda: answers.append(shop.fire(shop.table(), run_id="monday", engine=shop.store.engine())),
    )

    outcome = shop.fire(shop.table(), run_id="monday")

    ids = ["monday.replay-1" if failed_before else "monday"]
    assert [[run.run_id for run in each.runs] for each in (*answers, outcome)] == [ids, ids]
    assert (outcome.state, outcome.exit_code) == (FireState.COMPLETED, 0)
    assert (shop.ids(), shop.marker().seq) == ([1], 1)


@pytest.mark.parametrize("patient", [False, True])
def test_a_run_that_comes_between_look_and_open_is_sat_out(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, *, patient: bool
) -> None:
    shop.feed.serves(orders(1))
    table, other = shop.table(), shop.store.engine()
    held: list[Any] = []

    def hold() -> None:
        run = other.new_run("tuesday", plan_ref=table.content_hash, table="orders")
        held.append(other.hold("table:orders", Pins(table.content_hash), run=run))

    def patience(_: ExecutionLive) -> bool:
        if patient:
            held[0].retire(held[0].ended(RunStatus.FAILED))
        return patient

    between_look_and_open(monkeypatch, hold)
    outcome = shop.fire(table, await_live=patience)

    assert outcome.exit_code == (0 if patient else NOT_NOW)
    assert shop.feed.read == ([0] if patient else [])


def test_a_fire_of_the_same_key_at_work_elsewhere_is_not_now(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2))

    first, second = fired_in_the_midst(shop, idempotency_key="k")

    assert (second.fire_id, second.state, second.exit_code) == (first.fire_id, FireState.RUNNING, NOT_NOW)
    assert shop.ids() == [1, 2]


def test_a_fire_that_was_waited_for_is_the_answer_to_its_key(shop: Shop) -> None:
    other, fire_id = begun(shop)
    told: list[ExecutionLive] = []

    def patience(live: ExecutionLive) -> bool:
        told.append(live)
        if len(told) == 3:
            Fires(other.profile.database).end(fire_id, FireState.COMPLETED, holder=other.leases.holder)
        return True

    outcome = shop.fire(shop.table(), await_live=patience, idempotency_key="k")

    assert {(live.scope, live.attempt) for live in told} == {("pipeline:shop", fire_id)}
    assert (outcome.fire_id, outcome.state, outcome.exit_code) == (fire_id, FireState.COMPLETED, 0)
    assert (len(told), shop.feed.read) == (3, [])


def test_a_fire_whose_process_dies_while_it_is_waited_for_is_taken_up(shop: Shop) -> None:
    _, fire_id = begun(shop)

    def patience(_: ExecutionLive) -> bool:
        shop.store.clock.advance(LEASE + 1)
        return True

    outcome = shop.fire(shop.table(), await_live=patience, idempotency_key="k")

    assert (outcome.fire_id, outcome.state, shop.feed.read) == (fire_id, FireState.COMPLETED, [0])


def test_a_wait_for_a_fire_ends_with_the_patience(shop: Shop) -> None:
    _, fire_id = begun(shop)
    left = [True, True, False]

    outcome = shop.fire(shop.table(), await_live=lambda _: left.pop(0), idempotency_key="k")

    assert (outcome.fire_id, outcome.state, outcome.exit_code, left) == (fire_id, FireState.RUNNING, NOT_NOW, [])


def test_a_wait_for_a_fire_ends_with_the_engine_and_leaves_the_fire_alone(shop: Shop) -> None:
    _, fire_id = begun(shop)
    engine = shop.store.engine()

    def patience(_: ExecutionLive) -> bool:
        engine.stop("interrupted")
        return True

    with pytest.raises(Canceled, match="interrupted"):
        shop.fire(shop.table(), engine=engine, await_live=patience, idempotency_key="k")

    assert Fires(engine.profile.database).read(fire_id).state is FireState.RUNNING
