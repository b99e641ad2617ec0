"""Windows that pass, receipts with and without a value, and what an engine makes of answers by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.drama.destination import Manner
from tests.drama.world import HOUR_MS, KEYLESS, WINDOWED

if TYPE_CHECKING:
    from engine.guards.guard import Guard
    from tests.drama.world import World


@pytest.fixture
def begins_at() -> int:
    """Far enough behind the Worker's clock for windows to pass."""
    return -4 * HOUR_MS


def left(world: World, manner: Manner, *, then_ms: int = HOUR_MS) -> Guard:
    """A guard whose engine died with its request out, its exit recorded, so long ago that the window has passed."""
    shop = world.shops[WINDOWED]
    shop.manners.append(manner)
    engine = world.start("order", WINDOWED)
    shop.await_kept()
    engine.kill()
    world.reap(engine)
    world.advance(then_ms)
    standing = world.guard("order")
    assert standing is not None
    return standing.guard


@pytest.mark.clause("run.callback-guard.replay", "run.callback-guard.window", "run.callback-guard.class")
def test_after_the_window_nothing_is_replayed_and_a_receipt_settles_the_charge_for_good(world: World) -> None:
    shop = world.shops[WINDOWED]
    guard = left(world, Manner.ACTS_AND_HOLDS)
    [executed] = shop.of("/order")

    blocked = world.play("order", WINDOWED)
    forgotten = world.reconcile(guard, f"idempotency:{guard.idempotency_key}")
    assert (blocked.code, blocked.told["error"]) == (75, "ExecutionTransferBlocked")
    assert blocked.told["facts"]["evidence_class"] == "unknown"
    assert forgotten.error == "ExecutionGuardEvidenceMismatch"
    assert world.guard("order") is not None

    receipt = f"receipt:{guard.idempotency_key}:{executed.receipt}"
    assert world.reconcile(guard, receipt).code == 0
    settled = world.play("order", WINDOWED)
    assert (settled.code, settled.told["error"]) == (1, "EffectSettled")
    assert receipt in settled.told["remedy"]
    assert "--value" in settled.told["remedy"]

    assert world.reconcile(guard, receipt, value={"charge": executed.receipt}).code == 0
    again = world.play("order", WINDOWED)
    assert (again.code, again.told["value"]) == (0, {"charge": executed.receipt})
    assert shop.keys("/order") == [executed.key]
    world.check_leftovers()


@pytest.mark.clause("run.callback-guard.evidence")
def test_what_the_destination_never_saw_is_sent_afresh(world: World) -> None:
    shop = world.shops[WINDOWED]
    engine = world.start("order", WINDOWED, dies="before")
    assert engine.ended() < 0
    world.reap(engine)
    world.advance(HOUR_MS)
    standing = world.guard("order")
    assert standing is not None

    blocked = world.play("order", WINDOWED)
    assert world.reconcile(standing.guard, f"receipt:{standing.guard.idempotency_key}:absent").code == 0
    sent = world.play("order", WINDOWED)

    assert blocked.told["error"] == "ExecutionTransferBlocked"
    assert (sent.code, len(shop.of("/order"))) == (0, 1)
    world.check_leftovers()


@pytest.mark.clause("run.callback-guard.replay", "run.callback-guard.window")
def test_a_request_that_the_window_may_not_outlast_is_not_sent_and_the_way_on_is_named(world: World) -> None:
    shop = world.shops[WINDOWED]
    guard = left(world, Manner.ACTS_AND_HOLDS, then_ms=HOUR_MS - 60_000)

    # The window covers no request any more whose answer may take as long as this one's.
    early = world.play("order", WINDOWED)
    world.advance()
    world.advance()
    late = world.play("order", WINDOWED)

    assert (early.code, early.told["error"]) == (1, "EffectOverdue")
    assert (late.code, late.told["error"]) == (1, "EffectUnsettled")
    assert f"run rewind {guard.execution_id}" in late.told["remedy"]
    assert shop.keys("/order") == [guard.idempotency_key]
    assert world.guards() == []

    rewound = world.contextful("run", "rewind", guard.execution_id, "--reason", "looked it up", "--force")
    anew = world.play("order", WINDOWED)
    assert (rewound.code, anew.code) == (0, 0)
    first, second = shop.of("/order")
    assert (first.key, second.key) == (guard.idempotency_key, shop.keys("/order")[-1])
    assert first.key != second.key


@pytest.mark.clause("run.callback-guard.release", "run.journal.d1-guard")
def test_a_running_engine_repeats_what_went_unanswered_only_where_its_key_is_honoured(world: World) -> None:
    windowed, keyless = world.shops[WINDOWED], world.shops[KEYLESS]
    windowed.manners += [Manner.ACTS_AND_BREAKS, Manner.BREAKS, 503]
    keyless.manners += [402, 503]

    repeated = world.play("repeated", WINDOWED, attempts=4)
    refused = world.play("refused", KEYLESS, attempts=4)
    after_an_answer = world.guard("refused")
    unknown = world.play("unknown", KEYLESS, attempts=4)
    guard = world.guard("unknown")

    [executed] = windowed.of("/repeated")
    assert (repeated.code, repeated.told["value"]) == (0, {"charge": executed.receipt})
    assert windowed.keys("/repeated") == [executed.key] * 4
    assert (refused.code, after_an_answer) == (1, None)
    assert (unknown.code, unknown.told["error"]) == (75, "ExecutionTransferBlocked")
    assert keyless.keys("/unknown") == [unknown.told["facts"]["idempotency_key"]]
    assert guard is not None
    assert world.reconcile(guard.guard, f"receipt:{guard.guard.idempotency_key}:absent").code == 0
    assert world.play("unknown", KEYLESS).code == 0
    assert len(keyless.of("/unknown")) == 1
    world.check_leftovers()
