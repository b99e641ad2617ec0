"""The conformance suite is also run over the real Worker: same tests, one more adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conftest import ON_EDGE, PROFILES, blank_store
from tests.exports.publishing import Publishing
from tests.exports.receiver import Receiver, receiving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.clocks import SettableClock
    from tests.stores import Store


@pytest.fixture(params=dict.fromkeys([*PROFILES, ON_EDGE]))
def blank(request: pytest.FixtureRequest, tmp_path: Path, clock: SettableClock) -> Iterator[Store]:
    """A store nobody has initialized, once under every profile."""
    yield from blank_store(request, tmp_path, clock)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def publishing(store: Store, receiver: Receiver) -> Publishing:
    return Publishing(store, receiver)
