"""Clocks that jump: backwards by an hour and forwards by a day, between runs and within one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.herd import KILLED, USUAL, scaled
from tests.crash.scene import INCREMENTAL, page

if TYPE_CHECKING:
    from tests.crash.scene import Scene, Stagehand

HOUR = 3_600_000
DAY = 24 * HOUR

pytestmark = pytest.mark.parametrize("profile", USUAL)


def in_order(scene: Scene) -> bool:
    """Whether commits are numbered and timed in one order, every row with them."""
    markers = scene.markers()
    instants = [marker["committed_at"] for marker in markers]
    numbers = [marker["seq"] for marker in markers]
    return numbers == list(range(1, len(markers) + 1)) and instants == sorted(set(instants))


def watermark(told: dict[str, Any], scene: Scene) -> str:
    """The position the newest marker publishes."""
    assert told["exit"] == 0, told
    return str(scene.markers()[-1]["position"]["at"])


@pytest.mark.clause("run.own.stage-instant", "run.advance.commit-with-rows")
def test_runs_under_a_clock_that_jumps_between_them_commit_in_order(stagehand: Stagehand, profile: str) -> None:
    scene = stagehand.scene(INCREMENTAL, profile)
    expected = stagehand.reference(INCREMENTAL.name, profile).once

    watermark(scene.finished(), scene)
    assert scene.commits() == expected
    for version, offset in ((4, -HOUR), (5, DAY), (6, 0)):
        scene.shelf.pages[5] = list(page(1, version=version))

        reached = watermark(scene.finished(offset_ms=offset), scene)

        assert reached == page(1, version=version)[0]["updated"]
    assert in_order(scene)
    assert scene.finished("look")["owners"] == []


@pytest.mark.clause("run.own.stage-instant", "run.record.owner-lease")
@pytest.mark.parametrize("jump", [-HOUR, DAY])
def test_a_clock_that_jumps_within_a_run_costs_it_nothing(stagehand: Stagehand, jump: int, profile: str) -> None:
    reference = stagehand.reference(INCREMENTAL.name, profile)
    for reading in range(0, 60, scaled(profile, short=6, full=6, on_edge=(0, 20))):
        scene = stagehand.scene(INCREMENTAL, profile)

        told = scene.finished(jumps=[0] * reading + [jump], watched=False)

        assert told["exit"] == 0, (reading, told)
        assert scene.commits() == reference.once
        assert in_order(scene)


@pytest.mark.clause("run.record.owner-lease", "run.own.live-owner")
def test_a_dead_run_under_a_clock_set_back_stays_held_and_is_resumed_once_its_lease_has_passed(
    stagehand: Stagehand, profile: str
) -> None:
    scene = stagehand.scene(INCREMENTAL, profile)
    assert scene.start(at="before put_all #1").ended() == KILLED

    early = scene.finished(offset_ms=-HOUR)
    later = scene.finished(offset_ms=DAY)

    assert (early["exit"], early["refusals"][0]["name"]) == (75, "ExecutionLive")
    assert later["exit"] == 0
    assert scene.commits() == stagehand.reference(INCREMENTAL.name, profile).once
    assert in_order(scene)
