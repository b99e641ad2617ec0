"""Seven days of an hourly poll of a vendor that throttles, breaks down and drags, in the time of a clock that is told.

The vendor is a real server; what it asks for in `Retry-After` is checked at every request it gets.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest

from engine.corpus.read import ReadFace
from engine.pipeline.declaration import HttpSource, Paginate, Pipeline, Table
from engine.pipeline.manifest.hashing import hashed
from engine.pipeline.runner import Request, fire
from engine.pipeline.source import Secrets
from engine.pipeline.waits import waiting
from engine.schedule import Schedule
from engine.shapes import FireState, RunStatus
from tests.answering import Answering, listening
from tests.clocks import START, SettableClock
from tests.pipeline.conftest import Silent
from tests.simulation.machine import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from engine.runs import RunRow
    from tests.stores import Store

MINUTE: Final = 60_000
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY
PAGE: Final = 20
FRESH: Final = 5 * MINUTE
"""How often the vendor has a new row."""

Reply = tuple[int, int]
"""A status and the seconds of its `Retry-After`, 0 for none."""

WEATHER: Final[tuple[Callable[[random.Random, int], Reply], ...]] = (
    lambda draw, _: (200, 0),
    lambda draw, _: (429, draw.randint(1, 60)) if draw.random() < 0.5 else (200, 0),
    lambda draw, _: (429, draw.choice((299, 300, 301))) if draw.random() < 0.4 else (200, 0),
    lambda draw, hour: (503, 0) if hour in {3, 4, 5, 6, 17} or draw.random() < 0.1 else (200, 0),
    lambda draw, _: (429, draw.randint(1, 5) * 3_600) if draw.random() < 0.4 else (200, 0),
    lambda draw, _: (503, draw.randint(400, 7_200)) if draw.random() < 0.3 else (200, 0),
    lambda draw, hour: (429, 11 * 3_600) if hour == 2 else (200, 0),
)
"""What each day answers a request at an hour."""

SLOW: Final = {0, 3}
"""Days on which an answer takes its time."""


@dataclass
class Vendor:
    """Serves rows in order of their clocks from `since` on, `PAGE` at a time; a token is the id behind the page."""

    clock: SettableClock
    fair: bool = False
    closed_until: int = 0
    answered: int = 0
    refused: list[Reply] = field(default_factory=list)
    early: list[int] = field(default_factory=list)
    draw: random.Random = field(default_factory=lambda: random.Random(7))

    @property
    def day(self) -> int:
        return (self.clock.now() - START) // DAY

    @property
    def held(self) -> int:
        """How many rows there are by now, numbered from 0."""
        return min(self.clock.now() - START, WEEK) // FRESH + 1

    def answer(self, query: dict[str, list[str]]) -> tuple[Reply, Any]:
        now = self.clock.now()
        if now < self.closed_until:
            self.early.append(self.closed_until - now)
        status, wait_s = (200, 0) if self.fair else WEATHER[self.day % 7](self.draw, now % DAY // HOUR)
        if status != 200:
            self.refused.append((status, wait_s))
            self.closed_until = now + wait_s * 1_000
            return (status, wait_s), {}
        if self.day in SLOW:
            self.clock.advance(self.draw.randint(1, 90) * 1_000)
        self.answered += 1
        return (200, 0), self._page(query)

    def _page(self, query: dict[str, list[str]]) -> dict[str, Any]:
        first = int(query.get("cursor", ["0"])[0])
        bar = query.get("since", [""])[0]
        rows = [{"id": n, "at": instant_of(n)} for n in range(first, self.held) if instant_of(n) >= bar]
        more = len(rows) > PAGE
        return {"items": rows[:PAGE], "next": rows[PAGE]["id"] if more else None}


def instant_of(number: int) -> str:
    """The clock of a row: two neighbours share one."""
    at = START + number // 2 * 2 * FRESH
    return datetime.fromtimestamp(at // 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _Handler(Answering):
    protocol_version = "HTTP/1.1"
    vendor: Vendor

    def reply(self) -> None:
        (status, wait_s), body = self.vendor.answer(parse_qs(urlsplit(self.path).query))
        self.answer(status, body, {"retry-after": str(wait_s)} if wait_s else {})


@pytest.fixture
def vendor(clock: SettableClock) -> Iterator[tuple[Vendor, str]]:
    vendor = Vendor(clock)
    with listening(_Handler, vendor=vendor) as url:
        yield vendor, f"{url}/orders"


@dataclass
class Week:
    """Fires as a scheduler would: whatever is due at its instant, and the table every hour."""

    store: Store
    table: Table
    waits: dict[str, int] = field(default_factory=dict)
    polls: int = 0
    slipped: list[str] = field(default_factory=list)

    def until(self, end: int) -> None:
        clock, poll = self.store.clock, self.store.clock.now()
        while clock.now() < end:
            if due := self._due():
                self._fire(due)
            else:
                poll += HOUR
                self._fire(None)
            instants = [wait for wait in self._instants() if wait > clock.now()]
            clock.advance(max(min([poll, *instants]) - clock.now(), 0))

    def settle(self) -> FireState:
        """Sit out what still waits, and poll once more."""
        while instants := self._instants():
            self.store.clock.advance(max(instants[0] - self.store.clock.now(), 0))
            self._fire(self._due())
        return self._fire(None)

    def runs(self) -> list[RunRow]:
        return self.store.here.runs.since(0, ceiling=10_000)

    def _instants(self) -> list[int]:
        return [each.wake_at for each in waiting(self.store.here)]

    def _due(self) -> str | None:
        return next((each.fire_id for each in waiting(self.store.here) if each.wake_at <= self.store.clock.now()), None)

    def _fire(self, fire_id: str | None) -> FireState:
        """One fire by a process of its own; what was due before it must not be due behind it."""
        self.polls += fire_id is None
        began = self.store.clock.now()
        engine = self.store.engine()
        request = Request(Pipeline("shop", (self.table,)), (self.table,), fire_id=fire_id)
        outcome = fire(engine, request, secrets=Secrets({}), watcher=Silent())
        assert outcome.refusals == ()
        for run in outcome.runs:
            if run.next_attempt_at:
                self.waits[run.run_id] = run.next_attempt_at
        self.slipped += [each.run_id for each in waiting(engine) if each.wake_at <= began]
        engine.close()
        return outcome.state


@pytest.mark.clause("run.retry.retry-after", "run.retry.waiting-state", "run.retry.resume-at", "run.retry.wake")
@pytest.mark.clause("run.retry.not-before", "run.retry.no-double-spend", "run.advance.inclusive-boundary")
def test_a_week_of_throttles_breakdowns_and_slow_days_loses_no_row_and_asks_nothing_early(
    vendor: tuple[Vendor, str], folder: Path, clock: SettableClock
) -> None:
    shop, url = vendor
    source = HttpSource(url, records="items", paginate=Paginate(by="token", field="next", param="cursor"))
    schedule = Schedule(attempts=5, jitter_ms=0)
    declared: dict[str, Any] = {"primary_key": ("id",), "incremental": "at", "since_param": "since"}
    table = hashed(Table("orders", "shop", source, content_hash="", schedule=schedule, **declared))
    store = LocalStore("sqlite", folder / "project", clock, dict).initialized()
    week = Week(store, table)

    week.until(START + WEEK)
    shop.fair = True
    last = week.settle()

    assert (shop.early, week.slipped, last) == ([], [], FireState.COMPLETED)
    ids = [row[0] for row in ReadFace(store.here.profile.objects).read("SELECT id FROM orders ORDER BY id").rows]
    assert ids == list(range(shop.held)), "a row is lost, or read twice"
    assert store.here.owners.all() == []
    holds(week, shop)
    store.close()


def holds(week: Week, shop: Vendor) -> None:
    """The runs say what happened, and no more was asked than that takes."""
    runs = week.runs()
    successes = sum(run.status is RunStatus.SUCCESS for run in runs)
    failures = [run.error or {} for run in runs if run.status is not RunStatus.SUCCESS]
    assert {run.status for run in runs} == {RunStatus.SUCCESS, RunStatus.FAILED}
    assert {failure["tag"] for failure in failures} <= {"Transient", "RateLimited"}
    assert len(week.waits) > 5, "runs waited"
    assert set(week.waits) <= {run.run_id for run in runs if run.status.terminal}
    assert len(runs) <= week.polls, "a wait makes no run of its own"
    assert shop.answered <= shop.held // PAGE + 2 * successes, "one page a poll for its boundary, one for its rows"
    assert len(shop.refused) > 80, "the week was no fair one"
    assert sum(wait for _, wait in shop.refused) * 1_000 <= week.store.clock.now() - START
