"""Stopping a run as another process does, from a test that runs it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import (
    Canceled,
)
from engine.execution.stopping import POLL_MS
from engine.stop import stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.host import Engine
    from engine.runs import RunRow
    from tests.stores import Store


def polled(store: Store, engine: Engine | None = None) -> None:
    """Let half a second pass for the keeper."""
    store.clock.advance(POLL_MS)
    (engine or store.here).keeper.wake()


def stopped_while(store: Store, work: Callable[[], Any], run_id: str) -> RunRow:
    """The row of a run whose `work` blocks until somebody stops it from outside."""

    def ask() -> None:
        stop(store.here.profile, run_id)
        polled(store)

    asking = threading.Timer(0.05, ask)
    asking.start()
    with pytest.raises(Canceled):
        work()
    asking.join()
    return store.run(run_id)
