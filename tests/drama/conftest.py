"""A troupe and an edge for all dramas of a worker process, and a world for each."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

pytest.register_assert_rewrite("tests.drama.stage", "tests.drama.world", "tests.drama.destination", "tests.drama.chaos")

from engine.clock import SystemClock  # noqa: E402 - what comes after it asserts, and is to be explained
from tests.conftest import ON_EDGE  # noqa: E402 - as above
from tests.drama.clock import SceneClock  # noqa: E402 - as above
from tests.drama.destination import Destination, serving  # noqa: E402 - as above
from tests.drama.stage import Troupe  # noqa: E402 - as above
from tests.drama.world import HOUR_MS, KEYLESS, PROJECT, WINDOWED, World  # noqa: E402 - as above
from tests.edges import wipe  # noqa: E402 - as above
from tests.local_edge import Edge, local_edge  # noqa: E402 - as above

if TYPE_CHECKING:
    from collections.abc import Iterator

BEHIND_MS: Final = HOUR_MS // 3
"""How far behind the machine a scene begins: a lease that lapses in it has lapsed by the Worker's clock as well, and a
window still covers by both."""


@pytest.fixture(scope="session")
def troupe(workshop: Path) -> Iterator[Troupe]:
    """Whoever plays."""
    troupe = Troupe(workshop / "troupe")
    yield troupe
    troupe.close()


@pytest.fixture(scope="session")
def stage_edge(workshop: Path) -> Iterator[Edge]:
    """The edge that scenes take turns on."""
    with local_edge(workshop / "edge", project=PROJECT) as running:
        yield running


@pytest.fixture
def profile() -> str:
    """Where a scene is set, unless it says otherwise."""
    return ON_EDGE


@pytest.fixture
def begins_at() -> int:
    """How far ahead of the machine the clock of a scene begins."""
    return -BEHIND_MS


@pytest.fixture
def world(
    request: pytest.FixtureRequest, workshop: Path, troupe: Troupe, profile: str, begins_at: int
) -> Iterator[World]:
    """A project with a destination that honours keys for an hour, and one that honours none."""
    edge: Edge | None = request.getfixturevalue("stage_edge") if profile == ON_EDGE else None
    if edge:
        wipe(edge.private)
    root = Path(tempfile.mkdtemp(prefix="world-", dir=workshop))
    clock = SceneClock(root / "clock", begins_at=begins_at)
    with ExitStack() as servers:
        shops = {
            name: servers.enter_context(serving(Destination(SystemClock().now, window, ahead_ms=begins_at)))
            for name, window in ((WINDOWED, HOUR_MS), (KEYLESS, None))
        }
        world = World(root, profile, troupe, clock, root / "clock", shops, edge, begins_at)
        assert world.contextful("storage", "initialize").code == 0, troupe.complaints()
        yield world
        world.close()
