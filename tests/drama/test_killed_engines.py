"""Engines killed at every point of a call, with a rival that wants the scope all the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from engine.shapes import RunStatus
from tests.conftest import ON_EDGE
from tests.drama.destination import Manner
from tests.drama.stage import KILLED
from tests.drama.world import KEYLESS, PROJECT, WINDOWED
from tests.scale import scale

if TYPE_CHECKING:
    from engine.guards.guard import Guard
    from tests.drama.stage import Actor
    from tests.drama.world import World

MEETS: Final = {"on the way": Manner.HOLDS, "acted": Manner.ACTS_AND_HOLDS}
REFUSALS: Final = {"ExecutionLive", "ExecutionTransferBlocked", "ExecutionSuperseded", "EffectOverdue"}
"""What a rival meets; the last two where the clock jumps between its taking the scope and its sending."""
POINTS: Final = ("before", "on the way", "acted", "answered", "recorded")
CAST: Final = scale(
    short=((ON_EDGE, WINDOWED, True), (ON_EDGE, KEYLESS, False)),
    full=tuple(
        (profile, destination, supervised)
        for profile in (ON_EDGE, "sqlite")
        for destination in (WINDOWED, KEYLESS)
        for supervised in (True, False)
    ),
)


def killed(world: World, scope: str, destination: str, point: str, *, supervised: bool) -> Actor:
    """An engine is killed at `point`; the rival that has been asking since before."""
    shop = world.shops[destination]
    if point in MEETS:
        shop.manners.append(MEETS[point])
    engine = world.start(
        scope, destination, "supervises" if supervised else "charges", dies=None if point in MEETS else point
    )
    engine.until("holder")
    if point in MEETS:
        shop.await_kept()
    else:
        engine.ended()
    rival = world.start(scope, destination, "rivals")
    assert rival.until("refused")["error"] == "ExecutionLive", rival.told
    assert rival.told["exit"] == 75
    assert engine.kill() == (128 - KILLED if supervised else KILLED)
    assert ("recorded" in engine.told) is supervised
    return rival


def settled_by_hand(world: World, guard: Guard, destination: str) -> None:
    """Look for the key at its destination, and release the guard by what is found there."""
    shown = world.inspect(guard)
    assert (shown["token"], shown["scope"], shown["entry"]["step"]) == (guard.token, guard.scope, "charge")
    key, found = shown["idempotency_key"], world.shops[destination].under(shown["idempotency_key"])
    known = world.reconcile(guard, f"idempotency:{key}")
    if destination == WINDOWED:
        assert (shown["evidence_class"], known.code) == ("replay-safe", 0)
        return
    assert (shown["evidence_class"], known.error) == ("unknown", "ExecutionGuardEvidenceMismatch")
    if found is None:
        assert world.reconcile(guard, f"receipt:{key}:absent").code == 0
    else:
        answer = world.reconcile(guard, f"receipt:{key}:{found.receipt}", value={"charge": found.receipt})
        assert answer.code == 0, answer


@pytest.mark.clause(
    "run.journal.d1-guard",
    "run.callback-guard.holder-gone",
    "run.callback-guard.replay",
    "run.callback-guard.manual",
    "run.callback-guard.evidence",
    "run.callback-guard.blocked",
    "run.callback-guard.release",
)
@pytest.mark.parametrize(("profile", "destination", "supervised"), CAST)
def test_what_a_killed_engine_charged_is_charged_once_and_goes_on_by_the_verb_that_is_named(
    world: World, destination: str, supervised: bool
) -> None:
    replays = supervised and destination == WINDOWED
    shop = world.shops[destination]
    for point in POINTS:
        scope = f"order-{point.replace(' ', '-')}"
        world.sets_out()
        rival = killed(world, scope, destination, point, supervised=supervised)
        guard = world.guard(scope)
        assert (guard is None) is (point == "recorded"), point

        if guard is None or replays:
            world.advance()
            assert rival.ended() == 0, (point, rival.told)
            shop.let_go()  # what was on its way arrives after the replay
        else:
            world.advance()
            assert rival.until("refused")["error"] == "ExecutionTransferBlocked", rival.told
            blocked = rival.told
            assert (blocked["exit"], blocked["facts"]["token"]) == (75, guard.guard.token)
            assert ("reconcile-guard" in blocked["remedy"]) is (destination == KEYLESS)
            assert world.guard(scope) is not None
            assert not [each for each in world.runs(scope) if each.status is RunStatus.SUCCESS]
            shop.let_go()
            settled_by_hand(world, guard.guard, destination)
            assert rival.ended() == 0, (point, rival.told)

        [executed] = shop.of(f"/{scope}")
        assert rival.told["value"] == {"charge": executed.receipt}
        assert set(shop.keys(f"/{scope}")) == {executed.key}
        assert set(rival.told["refusals"]) <= REFUSALS
        if guard:
            assert executed.key == guard.guard.idempotency_key
    check_history(world, destination)
    world.check_leftovers()


@pytest.mark.clause("run.callback-guard.blocked", "run.callback-guard.inspect")
def test_status_names_the_guard_and_the_verb_that_moves_it_on(world: World) -> None:
    rival = killed(world, "order", KEYLESS, "acted", supervised=False)
    world.advance()
    rival.until("refused", "ExecutionTransferBlocked")
    (world.root / "order.over").touch()
    assert rival.ended() == 0
    guard = world.guard("order")
    assert guard is not None

    [row] = world.contextful("status", "--json").json["pending"]
    told = world.contextful("storage", "guard", "--project", PROJECT, laptop=True)

    assert row["guard"]["token"] == guard.guard.token
    assert "reconcile-guard" in row["next"]
    assert guard.guard.idempotency_key in told.out
    assert "receipt:" in told.out


def check_history(world: World, destination: str) -> None:
    """Each scope has one success, and, once an engine has begun anew, no run that still seems to be at work."""
    world.advance(world.begins_at * -2)
    assert world.play(f"order-{POINTS[-1]}", destination).code == 0
    for point in POINTS:
        runs = world.runs(f"order-{point.replace(' ', '-')}")
        ended = [each.status for each in runs]
        assert ended.count(RunStatus.SUCCESS) == 1, (point, ended)
        assert {RunStatus.RUNNING, RunStatus.WAITING, RunStatus.PENDING}.isdisjoint(ended), (point, ended)
