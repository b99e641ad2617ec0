"""A store on one machine that publishes to a receiver of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.clocks import SettableClock
from tests.exports.publishing import Publishing
from tests.exports.receiver import Receiver, receiving
from tests.stores import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def publishing(tmp_path: Path, receiver: Receiver) -> Iterator[Publishing]:
    store = Store("sqlite", tmp_path / "project", SettableClock(), dict).initialized()
    yield Publishing(store, receiver)
    store.close()
