"""What every test may ask for: a store under each profile, and the clock it goes by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.clocks import SettableClock
from tests.stores import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PROFILES: Final[dict[str, Callable[[], dict[str, str]]]] = {"sqlite": dict, "file": dict}
"""The profiles whose adapters keep the same promises, and what gives each the settings of a fresh store."""


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture(params=PROFILES)
def blank(request: pytest.FixtureRequest, tmp_path: Path, clock: SettableClock) -> Iterator[Store]:
    """A store nobody has initialized."""
    store = Store(request.param, tmp_path / "project", clock, PROFILES[request.param])
    yield store
    store.close()


@pytest.fixture
def store(blank: Store) -> Store:
    """An initialized store, once under every profile."""
    return blank.initialized()
