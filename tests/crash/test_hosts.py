"""Host executions that die between and within their steps."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.herd import KILLED, USUAL, scaled
from tests.crash.scene import KEYLESS, LEASE_AND_A_BIT_MS

if TYPE_CHECKING:
    from tests.crash.scene import Scene, Stagehand

LABELS = ["reserve", "charge", "ship"]
pytestmark = pytest.mark.parametrize("profile", USUAL)


def steps(scene: Scene, *, leases: int = 0, **options: Any) -> dict[str, Any]:
    """What a child is told to open the scope `order` and take its steps."""
    return {"do": "steps", "scope": "order", "url": scene.shelf.url, "labels": LABELS,
            "offset_ms": leases * LEASE_AND_A_BIT_MS, **options}  # fmt: skip


def posts(scene: Scene) -> list[str]:
    """The steps whose effects arrived, in order."""
    return [one["step"] for one in scene.shelf.posted]


@pytest.mark.clause("run.own.unclosed-execution", "run.journal.step-output")
def test_an_open_after_the_lease_lapsed_replays_both_recorded_steps_without_their_effects(
    stagehand: Stagehand, profile: str
) -> None:
    scene = stagehand.scene(KEYLESS, profile)
    assert scene.start(**steps(scene, within="ship", signal=signal.SIGKILL)).ended() == KILLED

    told = scene.finished(**steps(scene, leases=1))

    assert told["resumed"]
    assert [value["number"] for value in told["values"]] == [1, 1, 2]
    assert posts(scene) == [*LABELS, "ship"]
    first, second = (one["key"] for one in scene.shelf.posted if one["step"] == "ship")
    assert first == second


@pytest.mark.clause("run.own.unclosed-execution", "run.own.live-owner")
def test_an_open_while_the_dead_lease_runs_is_refused_and_sends_nothing(stagehand: Stagehand, profile: str) -> None:
    scene = stagehand.scene(KEYLESS, profile)
    assert scene.start(**steps(scene, within="charge", signal=signal.SIGKILL)).ended() == KILLED

    told = scene.finished(**steps(scene))

    assert (told["exit"], told["refusals"][0]["name"]) == (75, "ExecutionLive")
    assert posts(scene) == ["reserve", "charge"]


@pytest.mark.clause("run.own.unclosed-execution", "run.journal.step-output", "run.journal.claim-takeover")
def test_a_death_at_any_point_repeats_at_most_the_effect_in_flight(stagehand: Stagehand, profile: str) -> None:
    points = stagehand.scene(KEYLESS, profile).finished(**steps(uninterrupted := stagehand.scene(KEYLESS, profile)))
    assert posts(uninterrupted) == LABELS
    tried = [point for point in points["points"] if "exit_holder" not in point][
        :: scaled(profile, short=5, full=1, on_edge=(0, 2))
    ]

    for point in tried:
        scene = stagehand.scene(KEYLESS, profile)
        assert scene.start(**steps(scene, at=point)).ended() == KILLED, point
        before = posts(scene)
        recorded = scene.finished("look")["recorded"]
        retired = _is_retired(scene, before)

        told = scene.finished(**steps(scene, leases=1))

        again = posts(scene)[len(before) :]
        assert told["exit"] == 0, (point, told)
        assert again == (LABELS if retired else [label for label in LABELS if label not in recorded]), point
        assert retired or sum(label in before for label in again) <= 1, point
    print(f"{profile}: {len(tried)} kills")


def _is_retired(scene: Scene, before: list[str]) -> bool:
    return before == LABELS and not scene.finished("look")["owners"]


@pytest.mark.clause("run.journal.current-owner", "run.journal.claim-takeover")
def test_a_holder_stopped_in_an_effect_and_taken_over_records_nothing(stagehand: Stagehand, profile: str) -> None:
    scene = stagehand.scene(KEYLESS, profile)
    first = scene.start(**steps(scene, within="charge", signal=signal.SIGSTOP, slept_ms=2 * LEASE_AND_A_BIT_MS))
    first.stopped()
    taker = scene.finished(**steps(scene, leases=1, once=True))
    sent = posts(scene)

    first.goes_on()

    assert first.ended() == 1
    assert first.result["refusals"][0]["name"] == "ExecutionSuperseded"
    assert [value["number"] for value in taker["values"]] == [1, 2, 1]
    assert posts(scene) == sent == ["reserve", "charge", "charge", "ship"], "the late one sends nothing more"
    again = scene.finished(**steps(scene, leases=3, once=True))
    assert again["values"] == taker["values"], "what the taker recorded stands"
    look = scene.finished("look")
    statuses = {run["run_id"]: run["status"] for run in look["runs"]}
    assert sorted(statuses.values()) == ["partial_failure", "success"]
    assert look["history"] == statuses


@pytest.mark.clause("run.journal.current-owner", "run.journal.step-output")
def test_a_holder_stopped_in_its_very_first_effect_and_taken_over_records_nothing_either(
    stagehand: Stagehand, profile: str
) -> None:
    scene = stagehand.scene(KEYLESS, profile)
    first = scene.start(**steps(scene, within="reserve", signal=signal.SIGSTOP, slept_ms=2 * LEASE_AND_A_BIT_MS))
    first.stopped()
    taker = scene.finished(**steps(scene, leases=1, once=True))

    first.goes_on()

    assert first.ended() == 1
    assert first.result["refusals"][0]["name"] == "ExecutionSuperseded"
    assert posts(scene) == ["reserve", *LABELS]
    assert scene.finished(**steps(scene, leases=3, once=True))["values"] == taker["values"]
