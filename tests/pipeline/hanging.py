"""A feed whose page hangs, and a stop asked for while it does."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from engine.execution.stopping import POLL_MS
from engine.stop import stop
from engine.stops import StopScope
from tests.pipeline.conftest import Feed, orders

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.source import Ask
    from engine.shapes import Pull
    from tests.pipeline.conftest import Shop


def in_flight(shop: Shop) -> list[str]:
    return [row.run_id for row in shop.store.here.runs.since(0, ceiling=100) if not row.status.terminal]


def ask(shop: Shop, *, scope: StopScope = StopScope.RUN) -> None:
    """Stop what is in flight as another process would, and let half a second pass."""
    (run_id, *_) = in_flight(shop)
    stop(shop.store.here.profile, run_id, scope=scope, reason="wrong month")
    shop.store.clock.advance(POLL_MS)
    shop.store.here.keeper.wake()


class Hanging(Feed):
    """A feed whose page `hangs` asks for the stop and then does not answer before it is released."""

    def __init__(self, shop: Shop, *, hangs: int, scope: StopScope = StopScope.RUN) -> None:
        super().__init__([orders(1), orders(2), orders(3)])
        self.shop, self.hangs, self.scope = shop, hangs, scope
        self.release, self.answered = threading.Event(), threading.Event()

    def __call__(self, asked: Ask) -> Iterator[Pull]:
        for pull in super().__call__(asked):
            if self.read[-1] == self.hangs and not self.release.is_set():
                ask(self.shop, scope=self.scope)
                self.release.wait(10)
                self.answered.set()
            yield pull
