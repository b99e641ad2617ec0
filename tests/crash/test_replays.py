"""What a resumed run lands is what an uninterrupted one lands, byte for byte, whatever happened in between."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from tests.crash.herd import KILLED, USUAL
from tests.crash.scene import KEYED, KEYLESS, LEASE_AND_A_BIT_MS, STAMPED, page
from tests.crash.survival import resumed

if TYPE_CHECKING:
    from tests.crash.scene import Scene, Stagehand

BEFORE_THE_PARTS = "before put_all #1"
pytestmark = pytest.mark.parametrize("profile", USUAL)


def recorded(pulls: int) -> str:
    """The point at which so many pulls are recorded and the last of them is not yet staged."""
    return f"before open staged/r-*/*.arrow #{pulls}"


def dies(scene: Scene, at: str, *, leases: int = 0) -> None:
    """Run the scene until it is killed at this point, in a process whose clock is that many leases ahead."""
    assert scene.start(at=at, offset_ms=leases * LEASE_AND_A_BIT_MS).ended() == KILLED, at


@pytest.mark.clause("run.journal.replay-lands")
def test_a_resumed_run_stages_the_bytes_of_an_uninterrupted_one(stagehand: Stagehand, profile: str) -> None:
    whole = stagehand.scene(KEYLESS, profile)
    halved = stagehand.beside(whole)
    dies(whole, BEFORE_THE_PARTS)
    dies(halved, recorded(3))

    dies(halved, BEFORE_THE_PARTS, leases=1)

    assert len(whole.staged()) == 6
    assert halved.staged() == whole.staged()


@pytest.mark.clause("run.journal.replay-lands")
def test_a_resumed_run_numbers_parts_and_rows_as_an_uninterrupted_one(stagehand: Stagehand, profile: str) -> None:
    scene = stagehand.scene(KEYLESS, profile)
    dies(scene, recorded(4))

    assert scene.finished(offset_ms=LEASE_AND_A_BIT_MS)["exit"] == 0

    (commit,) = scene.commits()
    assert commit.facts["parts"] == [f"{ordinal:06}.parquet" for ordinal in range(6)]
    numbers = [number for part in commit.parts for number in part["_row_seq"].to_pylist()]
    assert numbers == list(range(12))


@pytest.mark.clause("run.journal.replay-lands", "run.journal.recorded-batch")
def test_the_second_attempt_stages_what_the_first_recorded(stagehand: Stagehand, profile: str) -> None:
    scene = stagehand.scene(KEYLESS, profile)
    dies(scene, recorded(4))
    first = scene.finished("look")["recorded"]

    dies(scene, BEFORE_THE_PARTS, leases=1)

    staged = [hashlib.sha256(content).hexdigest() for content in scene.staged().values()]
    assert [first[f"pull:{number}"] for number in range(4)] == staged[:4]


@pytest.mark.clause("run.journal.replay-lands")
def test_two_kills_change_nothing_either(stagehand: Stagehand, profile: str) -> None:
    scene = stagehand.scene(KEYLESS, profile)
    dies(scene, recorded(2))
    dies(scene, recorded(5), leases=1)

    told = resumed(scene, stagehand.reference(KEYLESS.name, profile), deaths=2)

    assert told["ran"]["runs"][0]["replayed"] == 5
    assert set(scene.shelf.asked.values()) == {1}


@pytest.mark.clause("run.journal.replay-lands", "run.journal.opt-out")
def test_an_empty_page_in_the_walk_shifts_nothing(stagehand: Stagehand, profile: str) -> None:
    scene = stagehand.scene(KEYED, profile)
    dies(scene, recorded(3))

    told = resumed(scene, stagehand.reference(KEYED.name, profile))

    assert told["ran"]["runs"][0]["replayed"] == 3
    assert dict(scene.shelf.asked) == {0: 1, 1: 1, 2: 2, 3: 1, 4: 1, 5: 1}, "an empty pull leaves no record"


@pytest.mark.clause("run.journal.replay-lands")
def test_a_page_that_changed_at_the_server_meanwhile_lands_as_it_was_recorded(
    stagehand: Stagehand, profile: str
) -> None:
    scene = stagehand.scene(STAMPED, profile)
    dies(scene, recorded(2))
    scene.shelf.pages[0] = list(page(901, 902))
    scene.shelf.pages[5] = list(page(905))

    assert scene.finished(offset_ms=LEASE_AND_A_BIT_MS)["exit"] == 0

    assert [row["id"] for row in scene.rows()] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 905]
    assert {row["asking"] for row in scene.rows()} == {1}


@pytest.mark.clause("run.own.stage-discard")
def test_a_crash_leaves_its_staged_parts_and_the_next_fire_removes_them(stagehand: Stagehand, profile: str) -> None:
    scene = stagehand.scene(KEYLESS, profile)

    dies(scene, BEFORE_THE_PARTS)
    left = scene.staged()
    scene.finished(offset_ms=LEASE_AND_A_BIT_MS)

    assert len(left) == 6
    assert scene.leftovers() == []


@pytest.mark.clause("run.journal.collection", "run.own.retirement")
def test_a_death_between_retirement_and_collection_is_made_up_for(stagehand: Stagehand, profile: str) -> None:
    scene = stagehand.scene(KEYLESS, profile)
    reference = stagehand.reference(KEYLESS.name, profile)
    (retired,) = [point for point in reference.points if point.startswith("after") and "retire_owner" in point]
    dies(scene, retired)

    told = resumed(scene, reference)

    assert told["found"]["owners"] == []
    assert told["found"]["entries"] == (6 if profile == "file" else 0)
    assert told["left"]["entries"] == 0


@pytest.mark.clause("run.own.marker-reconciles", "run.own.retirement")
def test_a_marker_without_its_retirement_is_never_replayed_into_the_table(stagehand: Stagehand, profile: str) -> None:
    scene = stagehand.scene(KEYLESS, profile)
    reference = stagehand.reference(KEYLESS.name, profile)
    dies(scene, "after create items/commits/*.json #1")
    assert scene.commits() == reference.once

    told = resumed(scene, reference)

    (owner,) = told["found"]["owners"]
    assert told["ran"]["runs"][0]["execution_id"] != owner["execution_id"]
    assert told["ran"]["runs"][0]["replayed"] == 0
