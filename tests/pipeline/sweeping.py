"""What sweeps are tried on: runs that died at their markers, and time that passes."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, NoReturn

import pytest

from engine.clock import Chance
from engine.rewind import rewind
from engine.sweep import KEPT_MS, Leavings, found, removed
from tests.conftest import LOCAL
from tests.stores import LEASE, Died

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.host import Engine
    from tests.pipeline.conftest import Shop

HOUR = 3_600_000
NOTHING = Leavings((), (), (), ())
IN_FOLDERS = pytest.mark.parametrize("blank", LOCAL, indirect=True)
"""What a bucket never has: objects that were written by half."""

LARGE = random.Random(7).randbytes(1_600_000).hex()
"""Rows with this are recorded in a blob."""


def swept(shop: Shop) -> Leavings:
    profile = shop.store.here.profile
    return removed(profile, found(profile, chance=Chance()))


def age(shop: Shop, *, by: int = KEPT_MS + HOUR) -> None:
    """Let time pass; files keep the instants of the clock that stood when they were last written."""
    now = shop.store.clock.now() / 1000
    profile = shop.store.here.profile
    for root in (profile.scratch, incoming(shop)):
        for path in [root, *root.rglob("*")] if root.is_dir() else []:
            os.utime(path, (now, now))
    shop.store.clock.advance(by)


def incoming(shop: Shop) -> Path:
    return shop.store.root / "corpus" / ".incoming"


def parts(shop: Shop) -> list[str]:
    return list(shop.store.here.profile.objects.list("orders/parts/"))


def before_its_marker(engine: Engine, act: Callable[[], None]) -> None:
    """Let `act` happen where the process of `engine` has written its parts and creates its marker next."""
    objects = engine.profile.objects
    create = objects.create

    def creating(name: str, content: bytes) -> bool:
        if name.startswith("orders/commits/"):
            act()
        return create(name, content)

    objects.create = creating  # type: ignore[method-assign]


def dying_at_its_marker(shop: Shop, *, run_id: str = "dead") -> Engine:
    """A process that dies with its parts written and its marker not: what it staged and wrote stays."""
    elsewhere = shop.store.stalled()

    def die() -> NoReturn:
        raise Died

    before_its_marker(elsewhere, die)
    with pytest.raises(Died):
        shop.fire(shop.table(), engine=elsewhere, run_id=run_id)
    shop.store.clock.advance(LEASE + 1)
    return elsewhere


def given_up(shop: Shop) -> None:
    """Reap the dead run and retire its owner, as an operator does."""
    shop.store.here.reap()
    owner = shop.owner()
    assert owner is not None
    rewind(shop.store.here, owner.execution_id, reason="given up", force=True)
