"""A store on an edge that is being initialized: killed at any point, and by two at the same instant."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.crash.ground import URL
from tests.crash.herd import KILLED, ON_EDGE
from tests.crash.scene import KEYLESS
from tests.edges import wipe
from tests.scale import FULL

if TYPE_CHECKING:
    from tests.crash.scene import Scene, Stagehand

SOON_NS = 15_000_000
PAIRS = 6

pytestmark = [
    pytest.mark.skipif(not FULL, reason="each kill is three processes that make some fifty requests to an edge"),
    pytest.mark.parametrize("profile", [ON_EDGE]),
    pytest.mark.clause("run.journal.d1-initialize", "run.journal.d1-recovery", "run.journal.execution-recovery"),
]


def unused(stagehand: Stagehand, profile: str) -> Scene:
    """A scene whose store nobody has initialized."""
    scene = stagehand.scene(KEYLESS, profile)
    wipe(scene.ground.environ[URL])
    return scene


def test_an_initialization_killed_at_any_point_is_finished_by_another(stagehand: Stagehand, profile: str) -> None:
    points = unused(stagehand, profile).finished("initialize")["points"]

    for point in points:
        scene = unused(stagehand, profile)
        assert scene.start("initialize", at=point).ended() == KILLED, point
        early = scene.finished()
        refused = [refusal["name"] for refusal in early["refusals"]]
        assert refused in ([], ["ExecutionRecoveryMismatch"]), (point, early)
        assert bool(scene.commits()) is (not refused), point

        scene.finished("initialize")

        assert scene.finished()["exit"] == 0, point
        reference = stagehand.reference(KEYLESS.name, profile)
        assert scene.commits() == (reference.once if refused else reference.twice), point
    print(f"{profile}: {len(points)} kills")
    assert len(points) >= 5


def test_two_that_initialize_at_once_leave_one_identity(stagehand: Stagehand, profile: str) -> None:
    for pair in range(PAIRS):
        scene = unused(stagehand, profile)
        begin = time.monotonic_ns() + SOON_NS

        both = [scene.start("initialize", begin_ns=begin, watched=False) for _ in range(2)]

        assert [one.ended() for one in both] == [0, 0], f"pair {pair}: {scene.herd.complaints()}"
        left, right = (one.result["meta"] for one in both)
        assert left == right, f"pair {pair}"
        assert scene.finished()["exit"] == 0, f"pair {pair}"
        assert scene.commits() == stagehand.reference(KEYLESS.name, profile).once
    print(f"{profile}: {PAIRS} pairs of twins")
