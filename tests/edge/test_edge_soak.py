"""Twenty engines on one edge for two minutes, killed at random: every scope ends once, under one key an effect."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest

from engine.clock import SystemClock
from engine.execution.finished import FinishedExecution
from engine.host import Engine, Settings
from tests.edge.soak_child import EFFECTS, finish
from tests.edge.work import PROJECT, initialized, opened
from tests.local_edge import ROOT
from tests.scale import EDGE_FULL

if TYPE_CHECKING:
    from pathlib import Path

    from tests.local_edge import Edge

SECONDS: Final = float(os.environ.get("CONTEXTFUL_SOAK_SECONDS", "120"))
ENGINES: Final = int(os.environ.get("CONTEXTFUL_SOAK_ENGINES", "20"))
SCOPES: Final = 4
"""How many scopes an engine is to finish."""

AHEAD_MS: Final = 31_000


@pytest.mark.skipif(not EDGE_FULL, reason="takes two minutes and every core")
@pytest.mark.clause("run.journal.d1-profile")
def test_engines_killed_at_random_finish_every_scope_once(edge: Edge, tmp_path: Path) -> None:
    environ = {"CONTEXTFUL_BINDING_URL": edge.private}
    initialized(environ, tmp_path)
    waves = soaked(environ, tmp_path)

    scopes = [scope for wave in waves for scope in wave]
    clock = SystemClock(AHEAD_MS)
    with closing(opened(environ, tmp_path, clock=clock)) as profile:
        engine = Engine(profile, Settings(PROJECT, "here"), clock=clock)
        for scope in scopes:
            finish(engine, scope, book=tmp_path / "effects")
        ended = [engine.open(scope, plan="p", once=True) for scope in scopes]
        engine.keeper.stop()

    assert all(isinstance(each, FinishedExecution) for each in ended)
    keys = defaultdict(list)
    for line in (tmp_path / "effects").read_text(encoding="utf-8").splitlines():
        scope, effect, key = line.split()
        keys[scope, effect].append(key)
    assert set(keys) == {(scope, effect) for scope in scopes for effect in EFFECTS}
    assert all(len(set(found)) == 1 for found in keys.values())
    # An effect is repeated only where its engine was killed between it and its record: once a kill at most.
    assert all(len(found) <= 2 for found in keys.values())


def soaked(environ: dict[str, str], root: Path) -> list[list[str]]:
    """Keep engines at work, killing one now and then; return the scopes of each that was started."""
    chance, until = random.Random(1), time.monotonic() + SECONDS
    waves: list[list[str]] = []
    running: list[subprocess.Popen[bytes]] = []
    while time.monotonic() < until:
        running = [child for child in running if child.poll() is None]
        while len(running) < ENGINES:
            waves.append([f"s{len(waves)}-{number}" for number in range(SCOPES)])
            command = [sys.executable, "-m", "tests.edge.soak_child", str(root), *waves[-1]]
            running.append(subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environ}))
        time.sleep(chance.uniform(0.1, 1))
        chance.choice(running).kill()
    for child in running:
        child.kill()
        child.wait()
    return waves
