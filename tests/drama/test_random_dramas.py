"""Dramas by chance, at a destination that honours keys for an hour and at one that honours none."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from tests.conftest import ON_EDGE
from tests.drama.chaos import Chaos
from tests.drama.world import HOUR_MS, KEYLESS, WINDOWED
from tests.scale import scale

if TYPE_CHECKING:
    from tests.drama.world import World

ACTS: Final = 14
SEEDS: Final = {ON_EDGE: scale(short=2, full=16), "sqlite": scale(short=4, full=40)}
"""How many dramas there are at each destination."""


@pytest.fixture
def begins_at() -> int:
    """So far behind the machine's clock that many windows may pass."""
    return -90 * 24 * HOUR_MS


@pytest.mark.clause(
    "run.journal.d1-guard",
    "run.callback-guard.release",
    "run.callback-guard.replay",
    "run.callback-guard.manual",
    "run.callback-guard.live-holder",
    "run.callback-guard.holder-gone",
)
@pytest.mark.parametrize("profile", [ON_EDGE, "sqlite"])
@pytest.mark.parametrize("destination", [WINDOWED, KEYLESS])
def test_whatever_happens_a_charge_is_executed_once_and_ends_recorded_by_the_verbs_that_are_named(
    world: World, destination: str
) -> None:
    endings: Counter[str] = Counter()
    happened: Counter[str] = Counter()
    for seed in range(SEEDS[world.profile]):
        chaos = Chaos(world, destination, seed)
        try:
            endings[chaos.play(ACTS)] += 1
        except BaseException:
            sys.stderr.write(f"seed {seed} at {destination} under {world.profile}: {chaos.story}\n")
            raise
        happened += chaos.happened
    sys.stdout.write(f"{destination}, {world.profile}: {dict(endings)}, {dict(happened)}\n")
    assert sum(endings.values()) == SEEDS[world.profile]
    if destination == KEYLESS:
        assert set(endings) == {"recorded"}, "a guard stands where no window has ever covered: evidence is a way on"
    world.check_leftovers()
