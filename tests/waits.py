"""Words for tests of long waits: a vendor that asks for an hour, and attempts that wait for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import pytest

from engine.errors import RateLimited, Transient, Waiting
from engine.schedule import Schedule
from tests.stores import Effect, failing

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.execution.execution import Execution
    from tests.stores import Store

HOUR: Final = 3_600_000
AWAY: Final = Transient("the vendor is away")
EXACT: Final = Schedule(attempts=4, base_ms=1_000, jitter_ms=0)


def soon(condition: Callable[[], bool]) -> bool:
    """Whether `condition` holds within a few seconds; what it tells of happens on another thread."""
    deadline = time.monotonic() + 5
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def throttled(wait_ms: int = HOUR) -> RateLimited:
    return RateLimited("slow down", wait_ms=wait_ms)


def parked(store: Store, *failures: Exception, scope: str = "job", schedule: Schedule = EXACT) -> Execution:
    """An attempt that recorded one step and then met `failures`, the last of which asks it to wait for long."""
    execution = store.elsewhere(scope)
    execution.step("before", Effect())
    with pytest.raises(Waiting), execution:
        execution.step("ask", Effect(failing(*(failures or (throttled(),)))), schedule=schedule)
    return execution


def ended_by(raised: list[BaseException], work: Callable[[], Any]) -> Callable[[], None]:
    """Work for a thread that leaves in `raised` what it ended by."""

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    return run
