"""A stop at every point where a run waits, asks or writes: it ends at once, terminal, and the next run completes it.

A seed chooses the point, the way the stop comes and the job. One that fails is replayed alone:
`CONTEXTFUL_STOP_SEED=17 .venv/bin/pytest tests/pipeline/test_stop_seeds.py`.
"""

from __future__ import annotations

import os
import random
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from engine.errors import Canceled, CancelTargetNotInFlight, Transient
from engine.execution.cancellation import Cancellation
from engine.schedule import Schedule
from engine.shapes import FireState, RunStatus
from engine.sql import call
from engine.stop import stop
from tests.pipeline.conftest import Feed, Shop, orders
from tests.scale import scale
from tests.stores import Effect, failing

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.host import Engine
    from tests.stores import Store

SEEDS: Final = scale(short=50, full=1_000)
PAGES: Final = 3
TERMINAL: Final = {FireState.COMPLETED, FireState.CANCELED}
PATIENT: Final = Schedule(attempts=3, base_ms=1_000, jitter_ms=0)


@dataclass
class Points:
    """Counts the points a job passes and does `then` at number `at`, before the point or behind it."""

    at: int
    then: Callable[[], None]
    behind: bool = False
    passed: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)

    def around(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def acting(*arguments: Any, **options: Any) -> Any:
            mine = self._mine()
            if mine and not self.behind:
                self.then()
            result = act(*arguments, **options)
            if mine and self.behind:
                self.then()
            return result

        return acting

    def _mine(self) -> bool:
        if threading.current_thread().name == "contextful-keeper":
            return False
        with self.lock:
            self.passed += 1
            return self.passed == self.at


@dataclass
class Scene:
    """One store in which a job is stopped and then completed."""

    shop: Shop
    monkeypatch: pytest.MonkeyPatch
    seed: int = 0
    effects: dict[str, Effect] = field(default_factory=dict)

    @property
    def store(self) -> Store:
        return self.shop.store

    def stopped(self, job: Callable[[Engine], None], *, at: int, by_mark: bool, behind: bool) -> int:
        """Run `job` and stop it at point `at`; return how many points it passed."""
        engine, outside = self.store.engine(seed=self.seed), self.store.profile()

        def then() -> None:
            if not by_mark:
                engine.stop("interrupted")
                return
            (run_id,) = [run.run_id for run in engine.runs.since(0, ceiling=9) if not run.status.terminal] or [""]
            try:
                stop(outside, run_id)
            except CancelTargetNotInFlight:
                return
            engine.stopping._poll()

        points = Points(at, then, behind)
        with self.monkeypatch.context() as hooks:
            hooks.setattr(engine.profile.database, "run", points.around(engine.profile.database.run))
            hooks.setattr(Cancellation, "check", points.around(Cancellation.check))
            hooks.setattr(self.store.clock, "wait", points.around(self.store.clock.wait))
            hooks.setattr(self.shop.module, "script", points.around(self.shop.feed))
            job(engine)
        engine.keeper.stop()
        engine.leases.exit()
        return points.passed

    def table(self, engine: Engine) -> None:
        outcome = self.shop.fire(self.shop.table(incremental="at", schedule=PATIENT), engine=engine)
        assert outcome.state in TERMINAL
        assert outcome.exit_code == (0 if outcome.state is FireState.COMPLETED else 130)

    def host(self, engine: Engine) -> None:
        awakeables = engine.profile.awakeables
        effects = self.effects

        def it(effect: Any, branch: Any) -> Any:
            return branch.step("it", effect)

        def resolve(token: str) -> None:
            awakeables.resolve(token, b'"yes"', at=self.store.clock.now())

        try:
            with engine.open("job", plan="plan-a") as x:
                x.step("one", effects["one"])
                x.step("flaky", effects["flaky"], schedule=PATIENT)
                assert x.wait("approval", ttl_ms=600_000, announce=resolve) == "yes"
                x.join("both", {name: partial(it, effects[name]) for name in ("left", "right")})
        except Canceled:
            pass


@pytest.fixture
def scenes(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Scene]:
    def scene(seed: int) -> Scene:
        feed = Feed([orders(page + 1) for page in range(PAGES)], {1: Transient("cut off")})
        twin = Shop(shop.store.twin(f"seed-{seed}"), shop.module, shop.base, feed)
        effects = {name: Effect() for name in ("one", "left", "right")}
        effects["flaky"] = Effect(failing(Transient("cut off")))
        return Scene(twin, monkeypatch, seed, effects)

    return scene


@pytest.mark.clause("run.cancel.one-token", "run.cancel.resumable-remains", "run.cancel.distinct-terminal-status")
def test_wherever_a_stop_comes_the_run_ends_and_the_next_one_completes_it(scenes: Callable[[int], Scene]) -> None:
    chosen = os.environ.get("CONTEXTFUL_STOP_SEED")
    lengths = {name: uninterrupted(scenes(-1 - place), name) for place, name in enumerate(("table", "host"))}
    for seed in [int(chosen)] if chosen else range(SEEDS):
        draw = random.Random(seed)
        name = draw.choice(sorted(lengths))
        scene, at = scenes(seed), draw.randrange(1, lengths[name] + 1)
        try:
            scene.stopped(getattr(scene, name), at=at, by_mark=draw.random() < 0.5, behind=draw.random() < 0.5)
            holds(scene)
            scene.shop.module.script = scene.shop.feed
            getattr(scene, name)(scene.store.here)
            {"table": completed_table, "host": completed_host}[name](scene)
        except BaseException as failure:
            failure.add_note(f"CONTEXTFUL_STOP_SEED={seed}: {name}, stopped at point {at} of {lengths[name]}")
            raise
        finally:
            scene.store.discard()


def uninterrupted(scene: Scene, name: str) -> int:
    passed = scene.stopped(getattr(scene, name), at=0, by_mark=False, behind=False)
    assert scene.store.statuses() == [RunStatus.SUCCESS]
    scene.store.discard()
    return passed


def holds(scene: Scene) -> None:
    """What is true behind any stop: everything has ended, and what is pending is nobody's."""
    assert set(scene.store.statuses()) <= {RunStatus.SUCCESS, RunStatus.CANCELED}
    for owner in scene.store.here.owners.all():
        assert (owner.attempt, owner.lease_until, owner.wake_at) == (None, 0, None)
    states = scene.store.here.profile.database.run(call("dead_fires", but=""))[0]
    assert states == []


def completed_table(scene: Scene) -> None:
    feed, store = scene.shop.feed, scene.store
    assert set(scene.shop.ids()) == {1, 2, 3}
    assert store.here.owners.all() == []
    if RunStatus.CANCELED in store.statuses():
        # One page failed once, and one may have been under way: nothing that was recorded is asked for again.
        assert len(feed.read) <= PAGES + 2
        assert len(scene.shop.ids()) == PAGES


def completed_host(scene: Scene) -> None:
    assert scene.store.here.owners.all() == []
    if RunStatus.CANCELED in scene.store.statuses():
        assert {name: effect.calls for name, effect in scene.effects.items()} == {
            "one": 1, "left": 1, "right": 1, "flaky": 2,
        }  # fmt: skip
