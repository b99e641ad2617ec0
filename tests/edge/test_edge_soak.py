"""Twenty engines on one edge for two minutes, killed at random: every scope ends once, under one key an effect."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pytest

from engine.clock import SystemClock
from engine.execution.finished import FinishedExecution
from engine.host import Engine, Settings
from engine.shapes import RunStatus
from tests.edge import soak_child
from tests.edge.soak_child import EFFECTS
from tests.edge.work import PROJECT, initialized, opened
from tests.scale import FULL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.context import ForkServerProcess
    from pathlib import Path

    from tests.local_edge import Edge

SECONDS: Final = float(os.environ.get("CONTEXTFUL_SOAK_SECONDS", "120"))
ENGINES: Final = int(os.environ.get("CONTEXTFUL_SOAK_ENGINES", "20"))
SCOPES: Final = 2
"""How many scopes of its own an engine is to finish; those of one that was killed are added once its lease is over."""

LEASE_S: Final = 31
FINISHING: Final = 4
ENOUGH: Final = 100_000


@dataclass
class Soak:
    """Engines over one store: which run, which scopes they were given, and how often one was killed over each."""

    root: Path
    environ: dict[str, str]
    scopes: list[str] = field(default_factory=list)
    killed: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    _left: list[tuple[float, list[str]]] = field(default_factory=list)
    _running: list[tuple[ForkServerProcess, list[str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = random.Random(1)
        # What all engines need is imported once, so that a kill costs a fork and no more.
        self._started = multiprocessing.get_context("forkserver")
        self._started.set_forkserver_preload([soak_child.__name__])

    def run(self, seconds: float) -> None:
        """Keep engines at work for so long, killing one now and then and all of them at the end."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._bury()
            while len(self._running) < ENGINES:
                self._start()
            time.sleep(self._chance.uniform(0.3, 1.3))
            self._kill(*self._chance.choice(self._running))
        for process, given in self._running:
            self._kill(process, given)
        self._bury()

    def finish(self, scopes: list[str]) -> None:
        """Let a few engines that nobody kills do what is left of `scopes`, their clocks beyond every lease."""
        for number in range(FINISHING):
            self._begin(scopes[number::FINISHING], ahead_ms=LEASE_S * 1000)
        for process, _ in self._running:
            process.join()
        self._bury()

    def _start(self) -> None:
        own = [f"s{len(self.scopes) + number}" for number in range(SCOPES)]
        self.scopes += own
        self._begin([*self._taken_over(), *own])

    def _begin(self, given: list[str], **options: int) -> None:
        arguments = (self.root, self.environ, given)
        process = self._started.Process(target=soak_child.main, args=arguments, kwargs=options)
        process.start()
        self._running.append((process, given))

    def _taken_over(self) -> list[str]:
        """The scopes of the engine that was killed longest ago, if its lease is over."""
        if self._left and self._left[0][0] <= time.monotonic():
            return self._left.pop(0)[1]
        return []

    def _kill(self, process: ForkServerProcess, given: list[str]) -> None:
        if process.is_alive():
            process.kill()
            self.kills += 1
            self.killed.update(given)
            self._left.append((time.monotonic() + LEASE_S, given))
        process.join()

    def _bury(self) -> None:
        for process, _ in [one for one in self._running if not one[0].is_alive()]:
            process.join()
            process.close()
        self._running = [one for one in self._running if one[0]._popen is not None]  # type: ignore[attr-defined]


@pytest.mark.skipif(not FULL, reason="takes two minutes and every core")
@pytest.mark.clause("run.journal.d1-profile", "run.own.unclosed-execution")
def test_engines_killed_at_random_finish_every_scope_once(edge: Edge, tmp_path: Path) -> None:
    environ = {"CONTEXTFUL_BINDING_URL": edge.private}
    initialized(environ, tmp_path)
    soak = Soak(tmp_path, environ)

    soak.run(SECONDS)

    clock = SystemClock(LEASE_S * 1000)
    with (
        closing(opened(environ, tmp_path, clock=clock)) as profile,
        Engine(profile, Settings(PROJECT, "here"), clock=clock) as engine,
    ):
        before = succeeded(engine, soak.scopes)
        soak.finish([scope for scope in soak.scopes if scope not in before])
        after = succeeded(engine, soak.scopes)
        ended = [engine.open(scope, plan="p", once=True) for scope in soak.scopes[:: len(soak.scopes) // 20]]
    assert after == Counter(soak.scopes), "every scope has one run that succeeded"
    assert all(isinstance(each, FinishedExecution) for each in ended)
    keys = written_down(tmp_path / "effects")
    repeated = sum(len(found) > 1 for found in keys.values())
    print(f"{len(soak.scopes)} scopes, {len(before)} done by then, {soak.kills} kills, {repeated} effects repeated")
    assert set(keys) == {(scope, effect) for scope in soak.scopes for effect in EFFECTS}
    assert all(len(set(found)) == 1 for found in keys.values())
    # An effect is repeated only where its engine was killed between it and its record: once a kill at most.
    assert all(len(found) <= 1 + soak.killed[scope] for (scope, _), found in keys.items())
    assert soak.kills > SECONDS / 2
    assert len(before) > ENGINES
    assert repeated, "no kill came between an effect and its record"


def succeeded(engine: Engine, scopes: Sequence[str]) -> Counter[str]:
    """How many runs of each of `scopes` have succeeded; others have worked at this edge before."""
    runs = engine.runs.since(0, ceiling=ENOUGH)
    asked = set(scopes)
    return Counter(run.host_scope for run in runs if run.status is RunStatus.SUCCESS and run.host_scope in asked)


def written_down(book: Path) -> dict[tuple[str, str], list[str]]:
    """The keys that each scope's effects went out under."""
    keys = defaultdict(list)
    for line in book.read_text(encoding="utf-8").splitlines():
        scope, effect, key = line.split()
        keys[scope, effect].append(key)
    return keys
