"""A request that is repeated because its process died, whatever that process had done already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crash.herd import KILLED, USUAL, scaled
from tests.crash.scene import KEYLESS, LEASE_AND_A_BIT_MS

if TYPE_CHECKING:
    from tests.crash.scene import Scene, Stagehand

THE_COMMIT = "before put_all #1"

pytestmark = [
    pytest.mark.parametrize("profile", USUAL),
    pytest.mark.parametrize("asked", [{"key": "today"}, {"run_id": "nightly"}], ids=["key", "run-id"]),
]


@pytest.mark.clause("run.own.one-commit-per-run", "run.own.marker-reconciles", "run.journal.replay-lands")
def test_a_repeated_request_lands_its_rows_once_wherever_it_died_in_or_after_its_commit(
    stagehand: Stagehand, profile: str, asked: dict[str, str]
) -> None:
    reference = stagehand.reference(KEYLESS.name, profile)
    late = reference.points[reference.points.index(THE_COMMIT) :]
    tried = [point for point in late if "r-*" not in point][:: scaled(profile, short=3, full=1, on_edge=(0, 6))]

    for point in tried:
        scene = stagehand.scene(KEYLESS, profile)
        assert scene.start(at=point, **asked).ended() == KILLED, point

        _repeated_twice(scene, asked)

        assert scene.commits() == reference.once, point
        assert set(scene.shelf.asked.values()) == {1}, point
    print(f"{profile}, {asked}: {len(tried)} kills")


def _repeated_twice(scene: Scene, asked: dict[str, str]) -> None:
    for leases in (1, 2):
        told = scene.finished(offset_ms=leases * LEASE_AND_A_BIT_MS, watched=False, **asked)
        assert told["exit"] == 0, told
    assert scene.finished("look")["owners"] == []
