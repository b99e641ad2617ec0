"""Two that ask for one run which has begun already: one ends it while the other has looked and not opened yet."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import RateLimited
from engine.shapes import FireState, Pull, RunStatus
from engine.stop import stop
from tests.pipeline.between import between_look_and_open
from tests.pipeline.conftest import orders
from tests.stores import LEASE, Died
from tests.waits import HOUR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from engine.host import Engine
    from engine.pipeline.runner import Outcome
    from engine.pipeline.source import Ask
    from tests.clocks import SettableClock
    from tests.pipeline.conftest import Shop


class Twice:
    """A table of two pages that a walk leaves no position of: whoever walks it anew lands it again."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []

    def __call__(self, ask: Ask) -> Iterator[Pull]:
        if ask.position is None:
            yield Pull(rows=orders(1), position=1, more=True)
        if self.failures:
            raise self.failures.pop()
        yield Pull(rows=orders(2), snapshot_complete=True)


@pytest.fixture(autouse=True)
def source(shop: Shop) -> Twice:
    shop.module.script = source = Twice()
    return source


def elsewhere(shop: Shop, **asked: Any) -> Outcome:
    """A fire of the same table in another process."""
    return shop.fire(shop.table(), engine=shop.store.engine(), **asked)


def waits(shop: Shop, source: Twice, **asked: Any) -> Outcome:
    """A fire in another process that waits for an hour at its second page."""
    source.failures = [RateLimited("429", wait_ms=HOUR)]
    return elsewhere(shop, **asked)


def told(*outcomes: Outcome) -> list[list[tuple[str, RunStatus, int]]]:
    return [[(run.run_id, run.status, run.rows) for run in outcome.runs] for outcome in outcomes]


@dataclass
class Hanging:
    """A fire that stands still at its first page until it is let go, its lease lapsing with the clock."""

    shop: Shop
    engine: Engine
    _fire: Future[Outcome] | None = None
    _stands: threading.Event = field(default_factory=threading.Event)
    _goes_on: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def begun(self, **asked: Any) -> Iterator[Hanging]:
        with ThreadPoolExecutor(1) as pool:
            self._fire = pool.submit(self.shop.fire, self.shop.table(), engine=self.engine, look=self._hang, **asked)
            try:
                assert self._stands.wait(60)
                self.shop.store.clock.advance(LEASE + 1)
                yield self
            finally:
                self._goes_on.set()

    def ends(self) -> Outcome | BaseException:
        """What it comes to, once it is let go."""
        assert self._fire is not None, "it has begun"
        self._goes_on.set()
        return self._fire.exception(60) or self._fire.result()

    def _hang(self, *_: Any) -> None:
        self._stands.set()
        assert self._goes_on.wait(60)


@pytest.fixture
def hanging(shop: Shop) -> Hanging:
    assert shop.store.here, "it has started before, and reaps nothing of what lapses from now on"
    return Hanging(shop, shop.store.stalled())


@pytest.mark.clause("run.retry.no-double-spend")
def test_a_run_that_waited_and_is_ended_between_look_and_open_lands_once(
    shop: Shop, source: Twice, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits(shop, source, run_id="monday")
    clock.advance(HOUR)
    answers: list[Outcome] = []
    between_look_and_open(monkeypatch, lambda: answers.append(elsewhere(shop, run_id="monday")))

    outcome = shop.fire(shop.table(), run_id="monday")

    assert told(*answers, outcome) == [[("monday", RunStatus.SUCCESS, 2)]] * 2
    assert (outcome.state, outcome.exit_code) == (FireState.COMPLETED, 0)
    assert (shop.ids(), shop.marker().seq, shop.owner()) == ([1, 2], 1, None)
    assert told(elsewhere(shop, run_id="monday")) == told(outcome)


@pytest.mark.clause("run.retry.no-double-spend")
def test_a_run_whose_lease_has_lapsed_and_that_ends_between_look_and_open_lands_once(
    shop: Shop, hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Any] = []
    with hanging.begun(run_id="monday"):
        between_look_and_open(monkeypatch, lambda: answers.append(hanging.ends()))

        outcome = shop.fire(shop.table(), run_id="monday")

    assert told(*answers, outcome) == [[("monday", RunStatus.SUCCESS, 2)]] * 2
    assert (shop.ids(), shop.marker().seq, shop.owner()) == ([1, 2], 1, None)


@pytest.mark.clause("run.own.marker-reconciles", "run.retry.no-double-spend")
@pytest.mark.parametrize("others", [0, 1])
def test_a_run_that_lands_and_dies_between_look_and_open_lands_once(
    shop: Shop, hanging: Hanging, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """Its owner stands then, or another request has retired it meanwhile and landed what it asked for itself."""

    def dies(*_: Any, **__: Any) -> None:
        raise Died

    def meanwhile() -> None:
        assert isinstance(hanging.ends(), Died)
        for _ in range(others):
            assert elsewhere(shop).exit_code == 0

    monkeypatch.setattr(hanging.engine.owners, "retire", dies)
    with hanging.begun(run_id="monday"):
        between_look_and_open(monkeypatch, meanwhile)

        outcome = shop.fire(shop.table(), run_id="monday")

    assert told(outcome) == [[("monday.replay-1", RunStatus.SUCCESS, 2)]]
    assert (shop.ids(), shop.marker().seq, shop.owner()) == (sorted([1, 2] * (1 + others)), 1 + others, None)


def found_done(
    shop: Shop, source: Twice, clock: SettableClock, monkeypatch: pytest.MonkeyPatch, *, meanwhile: Callable[[], object]
) -> Outcome:
    """A fire of a run that another ends between its look and its opening, whatever else comes `meanwhile`."""
    waits(shop, source, run_id="monday")
    clock.advance(HOUR)

    def ends() -> None:
        elsewhere(shop, run_id="monday")
        meanwhile()

    between_look_and_open(monkeypatch, ends)
    return shop.fire(shop.table(), run_id="monday")


@pytest.mark.clause("run.retry.no-double-spend")
def test_what_is_pending_when_a_run_is_found_done_stays_its_own_requests(
    shop: Shop, source: Twice, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        source.failures = [ValueError("second page")]
        elsewhere(shop, run_id="tuesday")

    outcome = found_done(shop, source, clock, monkeypatch, meanwhile=fails)

    assert told(outcome) == [[("monday", RunStatus.SUCCESS, 2)]]
    owner = shop.owner()
    assert owner is not None
    assert (owner.execution_id, owner.attempt) == (shop.store.run("tuesday").execution_id, None)
    (run,) = elsewhere(shop, run_id="tuesday").runs
    assert (run.replayed, shop.ids()) == (1, [1, 1, 2, 2])


@pytest.mark.clause("run.retry.no-double-spend")
def test_a_run_that_has_come_to_wait_meanwhile_goes_on_as_itself(
    shop: Shop, source: Twice, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    found_done(shop, source, clock, monkeypatch, meanwhile=lambda: waits(shop, source, run_id="tuesday"))
    clock.advance(HOUR)

    assert told(elsewhere(shop, run_id="tuesday")) == [[("tuesday", RunStatus.SUCCESS, 2)]]
    assert shop.ids() == [1, 1, 2, 2]


@pytest.mark.clause("run.retry.resume-at", "run.retry.no-double-spend")
@pytest.mark.parametrize("asked", [{}, {"run_id": "monday"}])
def test_a_wait_that_another_ends_first_is_told_as_it_ended(
    shop: Shop, source: Twice, clock: SettableClock, asked: dict[str, str]
) -> None:
    answers: list[Outcome] = []

    def patience(_: str, due_at: int) -> bool:
        clock.advance(due_at - clock.now())
        answers.append(elsewhere(shop, **asked))
        return True

    outcome = waits(shop, source, await_due=patience, **asked)

    assert told(outcome) == told(*answers)
    assert (outcome.refusals, outcome.exit_code, shop.ids()) == ((), 0, [1, 2])


@pytest.mark.clause("run.cancel.resumable-remains")
def test_a_wait_that_is_stopped_while_it_is_sat_out_is_told_as_stopped(
    shop: Shop, source: Twice, clock: SettableClock
) -> None:
    def patience(_: str, due_at: int) -> bool:
        clock.advance(due_at - clock.now())
        stop(shop.store.profile(), "monday", reason="wrong month")
        return True

    outcome = waits(shop, source, await_due=patience, run_id="monday")

    assert told(outcome) == [[("monday", RunStatus.CANCELED, 0)]]
    assert shop.owner() is not None
