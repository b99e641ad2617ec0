"""Two attempts at one checkpoint: one was stopped on its way to the marker, the other took the table over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.shapes import RunStatus
from tests.pipeline.checkpoints.conftest import commits, limit, sixteen
from tests.stores import LEASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.host import Engine
    from tests.pipeline.conftest import Shop

pytestmark = pytest.mark.clause("run.journal.current-owner", "run.own.one-commit-per-run")


class Stopped:
    """An engine whose process stops before marker number `seq` is created and goes on after `meanwhile`.

    `content` is the marker that it has in its hands then.
    """

    def __init__(self, shop: Shop, unit: int, *, seq: int) -> None:
        self.engine: Engine = shop.store.stalled()
        limit(self.engine, unit)
        objects = self.engine.profile.objects
        create, marker = objects.create, f"orders/commits/{seq:012}.json"
        self.meanwhile: Callable[[], Any] | None = None
        self.content = b""

        def stopping(name: str, content: bytes) -> bool:
            meanwhile, self.meanwhile = (self.meanwhile, None) if name == marker else (None, self.meanwhile)
            if meanwhile:
                self.content = content
                shop.store.clock.advance(LEASE + 1)
                meanwhile()
            return create(name, content)

        objects.create = stopping  # type: ignore[method-assign]


@pytest.mark.clause("run.own.checkpoint-run-id")
@pytest.mark.parametrize("seq", [1, 2, 4])
def test_a_stalled_attempt_finds_the_checkpoint_its_taker_made_and_lands_nothing(
    shop: Shop, unit: int, seq: int
) -> None:
    sixteen(shop)
    stopped = Stopped(shop, unit, seq=seq)
    limit(shop.store.here, unit)
    stopped.meanwhile = lambda: shop.run(run_id="taker")

    (late,) = shop.fire(shop.table(), engine=stopped.engine, run_id="late").runs

    assert late.error is not None
    assert (late.error["name"], late.rows) == ("ExecutionSuperseded", 4 * (seq - 1))
    assert [marker.position for marker in commits(shop)] == [4, 8, 12, 16]
    assert [marker.by.run_id for marker in commits(shop)] == ["late"] * (seq - 1) + ["taker"] * (5 - seq)
    assert len({marker.by.execution_id for marker in commits(shop)}) == 1
    assert shop.ids() == list(range(1, 17))
    named = {part.name for marker in commits(shop) for part in marker.parts}
    assert set(shop.store.here.profile.objects.list("orders/parts/")) == named


def test_a_taker_treats_a_late_checkpoint_as_done_and_goes_on_behind_it(shop: Shop, unit: int) -> None:
    """The stopped attempt creates its marker while the taker is on its way to the same one."""
    sixteen(shop)
    late, taker = Stopped(shop, unit, seq=1), Stopped(shop, unit, seq=1)
    rows: list[Any] = []

    def taken() -> None:
        taker.meanwhile = lambda: _create_of(late, shop)
        rows.extend(shop.fire(shop.table(), engine=taker.engine, run_id="taker").runs)

    late.meanwhile = taken
    shop.fire(shop.table(), engine=late.engine, run_id="late")

    assert (rows[0].status, rows[0].rows) == (RunStatus.SUCCESS, 16)
    assert [marker.by.run_id for marker in commits(shop)] == ["late", "taker", "taker", "taker"]
    assert shop.ids() == list(range(1, 17))


def _create_of(late: Stopped, shop: Shop) -> None:
    """The marker that `late` had in its hands, as its parts tell it."""
    owner = shop.owner()
    assert owner is not None
    objects = shop.store.here.profile.objects
    content = late.content
    assert objects.create("orders/commits/000000000001.json", content)


@pytest.mark.parametrize("limits", [(8.4, 2.9), (20.0, 18.0)], ids=["smaller", "larger"])
def test_a_taker_under_other_limits_lands_nothing_twice_and_loses_nothing(
    shop: Shop, unit: int, limits: tuple[float, float]
) -> None:
    """Its first commit covers other pulls than the one that appears in its place: it fails, and the next goes on."""
    sixteen(shop)
    late = Stopped(shop, unit, seq=1)
    other = shop.store.stalled()
    limit(other, unit, staged=limits[0], checkpoint=limits[1])
    rows: list[Any] = []

    def taken() -> None:
        create = other.profile.objects.create

        def overtaken(name: str, content: bytes) -> bool:
            if name.startswith("orders/commits/"):
                shop.store.here.profile.objects.create("orders/commits/000000000001.json", late.content)
            return create(name, content)

        other.profile.objects.create = overtaken  # type: ignore[method-assign]
        rows.extend(shop.fire(shop.table(), engine=other, run_id="taker").runs)

    late.meanwhile = taken
    shop.fire(shop.table(), engine=late.engine, run_id="late")
    limit(shop.store.here, unit)
    last = shop.run(run_id="last")

    assert rows[0].error is not None
    assert (rows[0].error["name"], rows[0].error["tag"]) == ("CommitOvertaken", "Transient")
    assert last.status is RunStatus.SUCCESS
    assert shop.ids() == list(range(1, 17))
