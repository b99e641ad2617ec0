"""What walks with checkpoints are tried on: pages of a known size, and limits counted in such pages."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.corpus.marker import history
from engine.pipeline.checkpoints import Limits
from tests.pipeline.conftest import day

if TYPE_CHECKING:
    from engine.corpus.marker import Marker
    from engine.host import Engine
    from tests.pipeline.conftest import Shop

NOISE = "".join(hashlib.sha256(bytes([number])).hexdigest() for number in range(250))
"""What compresses to about half: pages that hold it are alike in size, whatever else they hold."""


def page(*ids: int, at: int = 1) -> list[dict[str, Any]]:
    return [{"id": number, "at": day(at), "text": NOISE if number == ids[0] else ""} for number in ids]


@pytest.fixture
def unit(shop: Shop) -> int:
    """The bytes that a page stages, but for a few."""
    sizes: list[int] = []
    shop.feed.serves(page(0))
    shop.fire(shop.table("probe"), look=lambda _, landing: sizes.append(len(landing.recorded or b"")))
    return sizes[0]


def limit(engine: Engine, unit: int, *, staged: float = 8.4, checkpoint: float = 3.9) -> None:
    """Set the limits of `engine` in pages."""
    limits = Limits(staged=int(staged * unit), checkpoint=int(checkpoint * unit))
    engine.settings = replace(engine.settings, limits=limits)


def sixteen(shop: Shop, **facts: Any) -> None:
    shop.feed.serves(*(page(number) for number in range(1, 17)), **facts)


def commits(shop: Shop) -> list[Marker]:
    return list(history(shop.store.here.profile.objects, "orders"))
