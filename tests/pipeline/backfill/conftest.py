"""What backfills are tried on: the orders of five days, and a source that serves them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from engine.pipeline.backfill import Backfill, Backfilled, Chunked
from engine.pipeline.declaration import Pipeline
from engine.pipeline.plans import Plans, plan_of
from engine.pipeline.source import Secrets
from engine.schedule import Schedule
from engine.shapes import Pull
from tests.pipeline.conftest import Silent, day

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.host import Engine
    from engine.pipeline.declaration import Table
    from engine.pipeline.plans import Planned
    from engine.pipeline.source import Ask
    from tests.pipeline.conftest import Shop

ONCE = Schedule(attempts=1, jitter_ms=0)


@dataclass
class Past:
    """A source that serves the rows it has from `since` on, two a page, whatever `until` says.

    A failure under a window's start is raised once in place of its second page; `before` is called ahead of each page.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    failures: dict[Any, BaseException] = field(default_factory=dict)
    asked: list[tuple[Any, Any, int]] = field(default_factory=list)
    before: Callable[[Any, int], None] = lambda *_: None

    def __call__(self, ask: Ask) -> Iterator[Pull]:
        found = [row for row in self.rows if ask.since is None or row["at"] >= ask.since]
        page = ask.position or 0
        while True:
            self.before(ask.since, page)
            if page and ask.since in self.failures:
                raise self.failures.pop(ask.since)
            self.asked.append((ask.since, ask.until, page))
            more = 2 * (page + 1) < len(found)
            yield Pull(rows=found[2 * page : 2 * page + 2], position=page + 1, more=more)
            if not more:
                return
            page += 1

    @property
    def windows(self) -> list[Any]:
        """Where each walk was asked to begin, in order, once each."""
        return list(dict.fromkeys(since for since, _, _ in self.asked))


class Onlooker(Silent):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, int, int]] = []

    def chunked(self, chunk: Chunked, *, done: int, total: int) -> None:
        self.seen.append((chunk.planned.chunk.window.text, done, total))


@dataclass
class Archive:
    """The orders of five days, two a day, behind a table with a clock."""

    shop: Shop
    past: Past = field(default_factory=Past)
    watcher: Onlooker = field(default_factory=Onlooker)

    def __post_init__(self) -> None:
        self.past.rows = [{"id": 10 * n + half, "at": day(n)[:-9] + f"{12 * half:02}:00:00Z"}
                          for n in range(1, 6) for half in (0, 1)]  # fmt: skip
        self.shop.module.script = self.past

    def table(self, **declared: Any) -> Table:
        return self.shop.table(incremental="at", schedule=ONCE, **declared)

    def backfill(
        self, start: str = day(1), end: str = day(6), *, every: str = "1d", engine: Engine | None = None,
        table: Table | None = None,
    ) -> Backfilled:  # fmt: skip
        table = table or self.table()
        asked = Backfill(engine or self.shop.store.here, Pipeline("shop", (table,)), Secrets({}), self.watcher)
        return asked.run(asked.course([table], start, end, every=every))

    def live(self, **asked: Any) -> None:
        assert self.shop.fire(self.table(), **asked).exit_code == 0

    def plan(self, start: str = day(1), end: str = day(6)) -> list[Planned]:
        engine, table = self.shop.store.here, self.table()
        asked = Backfill(engine, Pipeline("shop", (table,)), Secrets({}), self.watcher)
        (course,) = asked.course([table], start, end, every="1d")
        return Plans(engine.profile.database).read(plan_of(table, course.span))

    def states(self) -> str:
        """The states of the plan's windows by their first letters."""
        return "".join(planned.state[0] for planned in self.plan())

    @property
    def ids(self) -> list[int]:
        return [row["id"] for row in self.past.rows]


@pytest.fixture
def archive(shop: Shop) -> Archive:
    return Archive(shop)
