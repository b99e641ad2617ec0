"""Two processes that start at the same instant on one scope, one step, one table, one folder nobody has used."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.herd import LOCAL, PROFILES, Child, scaled
from tests.crash.scene import INCREMENTAL, KEYLESS

if TYPE_CHECKING:
    from tests.crash.scene import Scene, Stagehand

SOON_NS = 15_000_000
APART_NS = 150_000_000


def pairs(profile: str) -> int:
    """How many pairs a test starts."""
    return scaled(profile, short=10, full=100, on_edge=(2, 12))


def twins(scene: Scene, *, pair: int, **options: Any) -> list[Child]:
    """Two children once both have ended; each even pair begins at one instant, the odd ones further and further apart.

    So one of two also comes upon the other at every stage of its end.
    """
    begin, lag = time.monotonic_ns() + SOON_NS, pair % 2 * APART_NS * pair // pairs(scene.profile)
    both = [scene.start(begin_ns=at, watched=False, **options) for at in (begin, begin + lag)]
    for child in both:
        child.ended()
    return both


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.clause("run.own.live-owner", "run.journal.entry-key", "run.journal.step-output")
def test_of_two_that_open_one_scope_at_once_only_one_sends(stagehand: Stagehand, profile: str) -> None:
    refused = 0
    for pair in range(pairs(profile)):
        scene = stagehand.scene(KEYLESS, profile)

        told = [child.result for child in twins(
            scene, pair=pair, do="steps", scope="order", url=scene.shelf.url, labels=["charge"], once=True
        )]  # fmt: skip

        assert len(scene.shelf.posted) == 1, f"pair {pair} sent {scene.shelf.posted}: {told}"
        assert {one["exit"] for one in told} <= {0, 75}, f"pair {pair}: {told}"
        assert {one["values"][0]["number"] for one in told if one["exit"] == 0} == {1}
        refused += sum(one["exit"] == 75 for one in told)
    print(f"{profile}: {pairs(profile)} pairs of twins on one step, {refused} refused, every effect sent once")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.clause("run.own.live-owner", "run.own.one-commit-per-run")
def test_of_two_that_run_one_table_at_once_only_one_lands_what_both_would_read(
    stagehand: Stagehand, profile: str
) -> None:
    reference = stagehand.reference(INCREMENTAL.name, profile)
    refused = 0
    for pair in range(pairs(profile)):
        scene = stagehand.scene(INCREMENTAL, profile)

        told = [child.result for child in twins(scene, pair=pair)]

        succeeded = sum(one["exit"] == 0 for one in told)
        assert {one["exit"] for one in told} <= {0, 75}, f"pair {pair}: {told}"
        assert scene.commits() == (reference.once if succeeded == 1 else reference.twice), f"pair {pair}: {told}"
        assert set(scene.shelf.asked.values()) == {succeeded}, f"pair {pair} asked {scene.shelf.asked}"
        refused += 2 - succeeded
    print(f"{profile}: {pairs(profile)} pairs of twins on one table, {refused} refused, every page asked once a run")


@pytest.mark.parametrize("profile", LOCAL)
@pytest.mark.clause("run.journal.execution-recovery", "run.journal.sqlite-write-lock")
def test_two_that_find_a_folder_nobody_has_used_both_get_a_whole_store(stagehand: Stagehand, profile: str) -> None:
    for pair in range(pairs(profile)):
        scene = stagehand.scene(KEYLESS, profile)
        begin = time.monotonic_ns() + SOON_NS

        pair_of = [
            scene.start("steps", scope=scope, url=scene.shelf.url, labels=["a"], begin_ns=begin, watched=False)
            for scope in ("left", "right")
        ]

        assert [child.ended() for child in pair_of] == [0, 0], f"pair {pair}: {[one.result for one in pair_of]}"
    print(f"{profile}: {pairs(profile)} pairs of twins in a fresh folder")
