"""A process stopped on its way into the commit, taken over by another, then continued."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.crash.herd import PROFILES, USUAL
from tests.crash.scene import KEYED, KEYLESS, LEASE_AND_A_BIT_MS, Play

if TYPE_CHECKING:
    from tests.crash.scene import Scene, Stagehand

BEFORE_THE_PARTS = "before put_all #1"
BETWEEN_OWNER_CHECK_AND_MARKER = "before link corpus/items/commits/*.json #1"
AFTER_THE_MARKER = "after create items/commits/*.json #1"

pytestmark = pytest.mark.clause("run.journal.current-owner", "run.own.marker-reconciles", "run.own.one-commit-per-run")


@pytest.mark.parametrize("profile", USUAL)
@pytest.mark.parametrize("play", [KEYLESS, KEYED], ids=lambda play: play.name)
@pytest.mark.parametrize("at", [BEFORE_THE_PARTS, BETWEEN_OWNER_CHECK_AND_MARKER])
def test_a_process_stopped_before_its_marker_lands_nothing_once_it_is_taken_over(
    stagehand: Stagehand, play: Play, at: str, profile: str
) -> None:
    scene = stagehand.scene(play, profile)
    first = scene.start(at=at, signal=signal.SIGSTOP, slept_ms=2 * LEASE_AND_A_BIT_MS)
    first.stopped()
    assert scene.finished(offset_ms=LEASE_AND_A_BIT_MS)["exit"] == 0

    first.goes_on()

    assert first.ended() == 1
    assert first.result["runs"][0]["error"]["name"] == "ExecutionSuperseded"
    assert scene.commits() == stagehand.reference(play.name, profile).once
    assert committed_folders(scene) == scene.part_folders(), "the parts of the superseded attempt are removed"
    assert scene.leftovers() == []
    assert statuses(scene) == ["partial_failure", "success"]


@pytest.mark.parametrize("profile", PROFILES)
def test_a_process_stopped_after_its_marker_keeps_its_rows_and_learns_that_it_was_retired(
    stagehand: Stagehand, profile: str
) -> None:
    scene = stagehand.scene(KEYLESS, profile)
    first = scene.start(at=AFTER_THE_MARKER, signal=signal.SIGSTOP, slept_ms=2 * LEASE_AND_A_BIT_MS)
    first.stopped()
    taker = scene.finished(offset_ms=LEASE_AND_A_BIT_MS)

    first.goes_on()

    assert first.ended() == 1
    assert first.result["runs"][0]["error"]["name"] == "ExecutionSuperseded"
    assert (taker["exit"], taker["runs"][0]["replayed"]) == (0, 0)
    assert scene.commits() == stagehand.reference(KEYLESS.name, profile).twice
    assert committed_folders(scene) == scene.part_folders()
    assert statuses(scene) == ["partial_failure", "success"]


def committed_folders(scene: Scene) -> set[str]:
    """The run ids whose parts the markers name."""
    return {run["run_id"] for run in scene.markers()}


def statuses(scene: Scene) -> list[str]:
    """How the runs ended, oldest first, as the catalog and the history that outlives it both say."""
    look = scene.finished("look")
    runs = {run["run_id"]: run["status"] for run in sorted(look["runs"], key=lambda run: run["started_at"])}
    assert look["history"] == runs
    return list(runs.values())
