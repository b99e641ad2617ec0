"""A clock that is set back between two attempts: what an execution has committed is still found, and counted once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.corpus.marker import history
from engine.pipeline.checkpoints import Limits
from engine.shapes import RunStatus
from tests.pipeline.conftest import day, orders
from tests.stores import LEASE, Died

if TYPE_CHECKING:
    from tests.clocks import SettableClock
    from tests.pipeline.conftest import Shop

HOUR = 3_600_000


def dies(shop: Shop, *, at: int, **declared: Any) -> None:
    """A run of a process that dies while it asks for page `at`, each pull a checkpoint; its lease lapses."""
    engine = shop.store.stalled()
    engine.settings = replace(engine.settings, limits=Limits(checkpoint=1))
    shop.feed.failures = {at: Died()}
    with pytest.raises(Died):
        shop.run(engine=engine, **declared)
    engine.keeper.stop()
    shop.store.clock.advance(LEASE + 1)


@pytest.mark.clause("run.own.checkpoint-resume", "run.own.one-commit-per-run")
@pytest.mark.parametrize("declared", [{}, {"incremental": "at"}], ids=["a page token", "a watermark"])
def test_checkpoints_made_before_the_instant_of_their_open_are_resumed_from(
    shop: Shop, clock: SettableClock, declared: Any
) -> None:
    shop.feed.serves(*(orders(number, at=day(number)) for number in range(1, 7)))
    shop.feed.failures = {1: ValueError("second page")}
    shop.run(**declared)
    clock.advance(-HOUR)
    dies(shop, at=4, **declared)
    shop.feed.serves(*(orders(number, at=day(number)) for number in range(1, 8)))

    last = shop.run(**declared)

    assert last.status is RunStatus.SUCCESS
    assert sorted(set(shop.ids())) == [1, 2, 3, 4, 5, 6, 7]
    ordinals = [marker.by.ordinal for marker in history(shop.store.here.profile.objects, "orders")]
    assert ordinals == list(range(len(ordinals))), "each is a commit of its own"
