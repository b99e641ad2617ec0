"""A run with checkpoints killed at every named point, stopped on its way to one, and both gone on with."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

import pytest

from tests.crash.herd import KILLED, PROFILES, USUAL, scaled
from tests.crash.scene import LEASE_AND_A_BIT_MS, Play, by_chance, page

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.crash.scene import Commit, Scene, Stagehand

AT_ONCE: Final = 3
LIMITS: Final = [1 << 20, 1800]
"""Two pages of these make a checkpoint due."""

PLAY: Final = Play(
    "checkpointed",
    'paginate = { by = "page", param = "page", start = 0 }',
    (*(page(number, number + 1) for number in range(2, 16, 2)), ()),
)
"""Seven pages of two rows, and the empty one that says that there are no more."""

pytestmark = [
    pytest.mark.clause(
        "run.own.checkpoint-resume",
        "run.own.checkpoint-run-id",
        "run.own.marker-reconciles",
        "run.journal.replay-lands",
        "run.own.one-commit-per-run",
        "run.own.stage-discard",
    ),
    pytest.mark.parametrize("profile", USUAL),
]


@dataclass(frozen=True)
class Whole:
    """The undisturbed run: what it commits and which points it passes."""

    commits: list[Commit]
    points: list[str]


@pytest.fixture(scope="module")
def whole(stagehand: Stagehand) -> Callable[[str], Whole]:
    @cache
    def played(profile: str) -> Whole:
        scene = stagehand.scene(PLAY, profile)
        told = scene.finished(limits=LIMITS)
        assert told["exit"] == 0, told
        commits = scene.commits()
        assert [len(commit.parts) for commit in commits] == [2, 2, 2, 1]
        return Whole(commits, told["points"])

    return played


def test_a_run_killed_at_any_point_goes_on_from_its_last_checkpoint(
    stagehand: Stagehand, whole: Callable[[str], Whole], profile: str
) -> None:
    reference = whole(profile)
    stride = scaled(profile, short=6, full=1, on_edge=(0, 8))
    certain = [point for point in reference.points if not by_chance(point)]
    points = certain[PROFILES.index(profile) :: stride]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        told = pool.map(lambda point: _killed_at(point, stagehand.scene(PLAY, profile), reference), points)
        failures = [failure for failure in told if failure]

    print(f"{profile}: {len(points)} kills at {len(reference.points)} points")
    assert not failures, f"{len(failures)} of {len(points)} kills: " + "\n".join(failures)


@pytest.mark.clause("run.journal.current-owner")
@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_process_stopped_on_its_way_to_a_commit_lands_nothing_once_it_is_taken_over(
    stagehand: Stagehand, whole: Callable[[str], Whole], number: int, profile: str
) -> None:
    scene = stagehand.scene(PLAY, profile)
    at = f"before link corpus/items/commits/*.json #{number}"
    first = scene.start(at=at, signal=signal.SIGSTOP, slept_ms=2 * LEASE_AND_A_BIT_MS, limits=LIMITS)
    first.stopped()
    assert scene.finished(offset_ms=LEASE_AND_A_BIT_MS, limits=LIMITS)["exit"] == 0

    first.goes_on()

    assert first.ended() == 1
    assert first.result["runs"][0]["error"]["name"] == "ExecutionSuperseded"
    assert scene.commits() == whole(profile).commits
    assert scene.part_folders() == {marker["commit_id"] for marker in scene.markers()}
    assert scene.leftovers() == []


def _killed_at(point: str, scene: Scene, reference: Whole) -> str | None:
    """Kill a run at `point` and resume it; say what was wrong."""
    code = scene.start(at=point, limits=LIMITS).ended()
    if code != KILLED:
        return f"{point}: was never reached (exit {code})"
    try:
        _goes_on(scene, reference)
    except AssertionError as wrong:
        return f"{point}: {wrong}"
    return None


def _goes_on(scene: Scene, reference: Whole) -> None:
    dead, asked = scene.commits(), scene.shelf.asked.copy()
    assert dead == reference.commits[: len(dead)], "what stands is not how the undisturbed run began"
    told = scene.finished("resume", offset_ms=LEASE_AND_A_BIT_MS, watched=False, limits=LIMITS)
    assert told["exit"] == 0, told["ran"]
    commits, left = scene.commits(), told["left"]
    assert commits[: len(reference.commits)] == reference.commits
    assert (left["owners"], left["entries"]) == ([], 0)
    assert scene.leftovers() == []
    if len(dead) == len(reference.commits):
        return  # the dead run had done it all, and this one read the source anew
    assert len(commits) == len(reference.commits)
    again = scene.shelf.asked - asked
    recorded = {int(step.removeprefix("pull:")) for step in told["found"]["recorded"]}
    assert not recorded & set(again), f"recorded {sorted(recorded)}, asked again {dict(again)}"
    twice = [number for number in range(len(PLAY.pages) - 1) if scene.shelf.asked[number] > 1]
    assert len(twice) <= 1, f"asked more than once: {twice}"
