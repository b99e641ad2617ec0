"""One herd of children and one site for all crash tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.register_assert_rewrite("tests.crash.survival", "tests.crash.scene", "tests.crash.herd", "tests.crash.ground")

from tests.crash.ground import Edges, edges  # noqa: E402 - what it asserts is to be explained
from tests.crash.herd import Herd  # noqa: E402 - as above
from tests.crash.scene import Stagehand  # noqa: E402 - as above
from tests.crash.site import Site  # noqa: E402 - as above

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """The server all projects read."""
    site = Site()
    yield site
    site.close()


@pytest.fixture(scope="session")
def herd(workshop: Path) -> Iterator[Herd]:
    """Where children come from."""
    herd = Herd(workshop / "herd")
    yield herd
    herd.close()


@pytest.fixture(scope="session")
def grounds(workshop: Path) -> Iterator[Edges]:
    """The edges that scenes take turns on; none runs before the first is taken."""
    with edges(workshop) as running:
        yield running


@pytest.fixture(scope="session")
def stagehand(workshop: Path, site: Site, herd: Herd, grounds: Edges) -> Stagehand:
    """Sets scenes up."""
    return Stagehand(workshop, site, herd, grounds)
