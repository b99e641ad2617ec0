"""What every test may ask for: a store under each profile, and the clock it goes by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.clocks import SettableClock
from tests.databases import database, postgres_database, sqlite_database
from tests.edges import edges, fresh_edge
from tests.postgres import MISSING, REMEDY, binaries, leave_out, postgres
from tests.scale import edge_scale
from tests.stores import Store
from tests.workshop import workshop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["database", "edges", "fresh_edge", "postgres", "postgres_database", "sqlite_database", "workshop"]

ON_EDGE: Final = "cloudflare-d1"
"""The profile whose stores are on a local edge, every statement of theirs a request to it."""

LOCAL: Final = ("sqlite", "file")
"""The profiles of one machine."""

PROFILES: Final = edge_scale(short=LOCAL, full=(*LOCAL, ON_EDGE))
"""The profiles whose adapters keep the same promises. The conformance suite is run over the edge at every scale."""


LEFT_OUT: Final = pytest.StashKey[int]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = leave_out(items)
    config.stash[LEFT_OUT] = len(left_out)
    if left_out:
        config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    # The process that reports has collected nothing itself where others run the tests.
    if binaries() is None:
        count = config.stash.get(LEFT_OUT, 0) or "all"
        terminalreporter.write_line(f"note: left out {count} tests over PostgreSQL: {MISSING}; {REMEDY}")


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture(params=PROFILES)
def blank(request: pytest.FixtureRequest, tmp_path: Path, clock: SettableClock) -> Iterator[Store]:
    """A store nobody has initialized."""
    yield from blank_store(request, tmp_path, clock)


def blank_store(request: pytest.FixtureRequest, tmp_path: Path, clock: SettableClock) -> Iterator[Store]:
    """A store under the profile that `request` is parametrized with; an edge is started only where one is needed."""
    store = Store(request.param, tmp_path / "project", clock, dict)
    if request.param == ON_EDGE:
        settings, over = request.getfixturevalue("fresh_edge"), request.getfixturevalue("edges").take_back
        store = Store(request.param, tmp_path / "project", clock, settings, over)
    yield store
    store.close()


@pytest.fixture
def store(blank: Store) -> Store:
    """An initialized store, once under every profile."""
    return blank.initialized()
