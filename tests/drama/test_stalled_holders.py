"""Holders that are stopped past their lease, let go by an operator, and continue when another engine has gone on."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.drama.destination import Manner
from tests.drama.world import KEYLESS, WINDOWED

if TYPE_CHECKING:
    from engine.guards.guard import Guard
    from tests.drama.stage import Actor
    from tests.drama.world import World


def stalled(world: World, destination: str, manner: Manner | None, *, attempts: int = 1) -> tuple[Actor, Guard]:
    """A holder that is stopped before it sends, or while its request is out, until its lease has lapsed."""
    shop = world.shops[destination]
    shop.manners.extend([manner] if manner else [])
    holder = world.start("order", destination, stops=None if manner else "before", attempts=attempts)
    if manner:
        shop.await_kept()
        holder.signal(signal.SIGSTOP)
    holder.until("stopped")
    alive = world.play("order", destination)
    assert (alive.code, alive.told["error"]) == (75, "ExecutionLive")
    world.advance()
    blocked = world.play("order", destination)
    standing = world.guard("order")
    assert (blocked.code, blocked.told["error"]) == (75, "ExecutionTransferBlocked")
    assert standing is not None
    return holder, standing.guard


def continued(holder: Actor) -> str:
    """What a holder comes to that continues."""
    holder.signal(signal.SIGCONT)
    assert holder.ended() in {1, 75, 130}, holder.told
    return str(holder.told["error"])


@pytest.mark.clause("run.callback-guard.manual", "run.callback-guard.evidence", "run.journal.d1-guard")
def test_a_holder_that_continues_after_its_absence_was_proved_sends_nothing(world: World) -> None:
    shop = world.shops[KEYLESS]
    holder, guard = stalled(world, KEYLESS, None)

    assert world.reconcile(guard, f"receipt:{guard.idempotency_key}:absent").code == 0
    other = world.play("order", KEYLESS)
    learned = continued(holder)

    [executed] = shop.of("/order")
    assert (other.code, other.told["value"]) == (0, {"charge": executed.receipt})
    assert learned == "ExecutionSuperseded"
    assert shop.keys("/order") == [guard.idempotency_key]
    world.check_leftovers()


@pytest.mark.clause("run.callback-guard.manual", "run.callback-guard.holder-gone")
def test_a_holder_whose_guard_was_released_by_hand_is_over_before_another_comes(world: World) -> None:
    shop = world.shops[KEYLESS]
    holder, guard = stalled(world, KEYLESS, None, attempts=3)

    assert world.reconcile(guard, f"receipt:{guard.idempotency_key}:absent").code == 0
    learned = continued(holder)
    sent_by_it = shop.keys("/order")
    other = world.play("order", KEYLESS)

    assert (learned, sent_by_it) == ("ExecutionSuperseded", [])
    assert (other.code, len(shop.of("/order"))) == (0, 1)
    world.check_leftovers()


@pytest.mark.clause("run.callback-guard.manual", "run.callback-guard.evidence", "run.journal.d1-guard")
def test_a_holder_whose_answer_comes_after_a_receipt_records_nothing(world: World) -> None:
    shop = world.shops[KEYLESS]
    holder, guard = stalled(world, KEYLESS, Manner.ACTS_AND_HOLDS)
    [executed] = shop.of("/order")

    receipt = f"receipt:{guard.idempotency_key}:{executed.receipt}"
    assert world.reconcile(guard, receipt, value={"charge": "as the operator found it"}).code == 0
    other = world.play("order", KEYLESS)
    shop.let_go()
    learned = continued(holder)

    again = world.play("order", KEYLESS)
    assert other.told["value"] == again.told["value"] == {"charge": "as the operator found it"}
    assert learned == "ExecutionSuperseded"
    assert shop.keys("/order") == [executed.key]
    world.check_leftovers()


@pytest.mark.clause("run.callback-guard.manual", "run.callback-guard.evidence", "run.callback-guard.window")
def test_a_request_that_arrives_after_its_repetition_is_executed_once_within_the_window(world: World) -> None:
    shop = world.shops[WINDOWED]
    holder, guard = stalled(world, WINDOWED, Manner.HOLDS)

    assert world.reconcile(guard, f"idempotency:{guard.idempotency_key}").code == 0
    other = world.play("order", WINDOWED)
    shop.let_go()
    learned = continued(holder)

    [executed] = shop.of("/order")
    assert (other.code, other.told["value"]) == (0, {"charge": executed.receipt})
    assert learned == "ExecutionSuperseded"
    assert shop.keys("/order") == [guard.idempotency_key] * 2
    world.check_leftovers()


@pytest.mark.clause("run.callback-guard.live-holder", "run.callback-guard.release")
@pytest.mark.parametrize("begins_at", [0])
def test_the_laptop_releases_nothing_while_the_holder_may_be_sending(world: World) -> None:
    shop = world.shops[KEYLESS]
    shop.manners.append(Manner.ACTS_AND_HOLDS)
    holder = world.start("order", KEYLESS)
    shop.await_kept()
    standing = world.guard("order")
    assert standing is not None

    refused = world.reconcile(standing.guard, f"receipt:{standing.guard.idempotency_key}:ch_1", laptop=True)
    after = world.guard("order")
    shop.let_go()

    assert (refused.code, refused.error) == (1, "ExecutionGuardHeld")
    assert after is not None
    assert (holder.ended(), holder.told["value"]) == (0, {"charge": "ch_1"})
    world.check_leftovers()
