"""A lease that lapses while somebody opens: the clock goes on between the open and what is said of its refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from engine.errors import ExecutionLive
from tests.clocks import SettableClock

if TYPE_CHECKING:
    from engine.host import Engine
    from tests.stores import Store

READINGS: Final = 12
"""More than an open reads of the clock."""


class TickingClock(SettableClock):
    """A clock that goes on by a millisecond with every reading."""

    ticks = False

    def now(self) -> int:
        if self.ticks:
            self.advance(1)
        return super().now()


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


@pytest.mark.clause("run.own.live-owner")
def test_a_lease_that_lapses_as_it_refuses_an_open_is_not_taken_for_other_pins(
    store: Store, clock: TickingClock
) -> None:
    refusals: list[ExecutionLive | None] = []
    for lead in range(READINGS):
        scope = f"job-{lead}"
        store.open(scope, engine=store.stalled())
        owner, engine = store.owner(scope), store.engine()
        assert owner is not None
        clock.advance(owner.lease_until - lead - clock.now())
        clock.ticks = True
        refusals.append(refusal(engine, scope))
        clock.ticks = False

    assert None in refusals
    assert any(refusals), "the sweep must meet both sides of the end of a lease"


def refusal(engine: Engine, scope: str) -> ExecutionLive | None:
    """What an open is refused by; any other refusal than a live lease is the test's failure."""
    try:
        engine.open(scope, plan="plan-a")
    except ExecutionLive as live:
        return live
    return None
