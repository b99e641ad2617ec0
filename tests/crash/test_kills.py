"""A run killed at every named point between its first statement and its last, and at random instants, then resumed."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import TYPE_CHECKING

import pytest

from tests.crash.herd import KILLED, LOCAL, ON_EDGE, PROFILES, USUAL, scaled
from tests.crash.scene import INCREMENTAL, KEYED, KEYLESS, LARGE, LEASE_AND_A_BIT_MS, Play
from tests.crash.survival import resumed

if TYPE_CHECKING:
    from tests.crash.scene import Scene, Stagehand

PLAYS = [KEYLESS, KEYED, INCREMENTAL]
AT_ONCE = 3


@pytest.mark.clause(
    "run.journal.replay-lands", "run.own.marker-reconciles", "run.own.one-commit-per-run", "run.own.retirement",
    "run.record.orphan-reap", "run.advance.commit-with-rows", "run.journal.collection",
)  # fmt: skip
@pytest.mark.parametrize(
    ("play", "profile"),
    [*product(PLAYS, LOCAL), (KEYLESS, ON_EDGE), *product([KEYED, INCREMENTAL, LARGE], USUAL[len(LOCAL) :])],
    ids=lambda asked: getattr(asked, "name", asked),
)
def test_a_run_killed_at_any_point_is_resumed_as_if_nothing_had_happened(
    stagehand: Stagehand, play: Play, profile: str
) -> None:
    reference = stagehand.reference(play.name, profile)
    # On an edge the other plays pass points that the first one has passed already.
    stride = scaled(profile, short=8, full=1, on_edge=(24, 1 if play is KEYLESS else 8))
    first = (2 * [*PLAYS, LARGE].index(play) + PROFILES.index(profile)) % stride
    points = reference.points[first::stride]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        told = pool.map(lambda point: _killed_at(point, stagehand=stagehand, play=play, profile=profile), points)
        failures = [failure for failure in told if failure]

    print(f"{play.name} on {profile}: {len(points)} kills at {len(reference.points)} points")
    assert not failures, f"{len(failures)} of {len(points)} kills: " + "\n".join(failures)


@pytest.mark.clause("run.journal.replay-lands", "run.own.one-commit-per-run", "run.own.marker-reconciles")
@pytest.mark.parametrize("profile", PROFILES)
def test_a_run_killed_at_any_instant_is_resumed_even_if_its_resumption_is_killed_too(
    stagehand: Stagehand, profile: str
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    draws = random.Random(seed)
    count = scaled(profile, short=10, full=100, on_edge=(3, 30))
    kills = [(draws.choice(PLAYS), draws.random(), draws.choice([0, draws.random()])) for _ in range(count)]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        told = list(pool.map(lambda kill: _killed_after(*kill, stagehand=stagehand, profile=profile), kills))

    failures = [failure for _, failure in told if failure]
    print(f"{profile}: seed {seed}, {count} runs, {sum(deaths for deaths, _ in told)} kills before their end")
    assert not failures, f"seed {seed}, {len(failures)} of {count}: " + "\n".join(failures)


def _killed_at(point: str, *, stagehand: Stagehand, play: Play, profile: str) -> str | None:
    """Kill one run at `point` and resume it; say what was wrong."""
    scene = stagehand.scene(play, profile)
    code = scene.start(at=point).ended()
    if code != KILLED:
        return f"{point}: was never reached (exit {code})"
    try:
        resumed(scene, stagehand.reference(play.name, profile), torn=point.startswith("within write staged"))
    except AssertionError as wrong:
        return f"{point}: {wrong}"
    return None


def _killed_after(
    play: Play, share: float, again: float, *, stagehand: Stagehand, profile: str
) -> tuple[int, str | None]:
    """Kill a run after a `share` of the time it takes, perhaps its resumption too: how many died, what was wrong."""
    reference = stagehand.reference(play.name, profile)
    scene = stagehand.scene(play, profile)
    deaths = _killed_in(scene, share * reference.seconds, offset_ms=0)
    scene.goes_elsewhere()
    if again and scene.commits() == reference.before:
        deaths += _killed_in(scene, again * reference.seconds, offset_ms=LEASE_AND_A_BIT_MS)
    scene.goes_elsewhere()
    try:
        resumed(scene, reference, deaths=2, torn=True)
    except AssertionError as wrong:
        return deaths, f"{play.name} after {share:.3f} and {again:.3f} of {reference.seconds:.3f} s: {wrong}"
    return deaths, None


def _killed_in(scene: Scene, seconds: float, *, offset_ms: int) -> int:
    child = scene.start(offset_ms=offset_ms, watched=False)
    time.sleep(seconds)
    child.kill()
    return child.ended() == KILLED
