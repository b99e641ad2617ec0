"""Containers that are stopped: whoever would have recorded the exit of their engine is gone with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.serve.processes import processes
from tests.drama.destination import Manner
from tests.drama.world import KEYLESS, LATER_MS, PROJECT, WINDOWED, World

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTAINER_STOP = "run.callback-guard.container-stop"


def gone(pid: int) -> bool:
    return all(each.pid != pid for each in processes()) or _zombie(pid)


def _zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@contextmanager
def served_export(world: World, name: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`contextful serve` above `export run`, whose request is kept at the destination: serve, and its engine."""
    (world.root / "orders.jsonl").write_text('{"id": 1}\n{"id": 2}\n', encoding="utf-8")
    assert world.contextful("pipeline", "run", "orders").code == 0
    words = [sys.executable, "-m", "engine.cli", "serve", "--", "export", "run", name]
    serve = subprocess.Popen(words, cwd=world.root, env=world.environ, stderr=subprocess.PIPE, text=True)
    try:
        world.shops[name.removeprefix("to-")].await_kept()
        [engine] = [each.pid for each in processes() if each.parent == serve.pid]
        yield serve, engine
    finally:
        serve.kill()
        serve.communicate()


@pytest.mark.clause(CONTAINER_STOP, "run.callback-guard.live-holder", "run.callback-guard.holder-gone")
def test_a_stopped_container_leaves_its_guard_held_until_evidence_is_given_after_the_lease(world: World) -> None:
    shop = world.shops[WINDOWED]
    shop.manners.append(Manner.ACTS_AND_HOLDS)
    serve = world.start("order", WINDOWED, "supervises")
    engine = serve.until("holder")["pid"]
    shop.await_kept()

    os.kill(serve.pid, signal.SIGKILL)
    os.kill(engine, signal.SIGKILL)
    assert serve.ended() == -signal.SIGKILL
    while not gone(engine):
        time.sleep(0.02)
    standing = world.guard("order")
    assert standing is not None
    evidence = f"idempotency:{standing.guard.idempotency_key}"

    alive = world.play("order", WINDOWED)
    held = world.reconcile(standing.guard, evidence, laptop=False)
    assert (alive.code, alive.told["error"]) == (75, "ExecutionLive")
    assert held.error == "ExecutionGuardHeld"

    world.advance()
    blocked = world.play("order", WINDOWED)
    after = world.guard("order")
    assert (blocked.code, blocked.told["error"]) == (75, "ExecutionTransferBlocked")
    assert blocked.told["facts"]["evidence_class"] == "replay-safe"
    assert after is not None
    assert after.holder_exited_at is None

    assert world.reconcile(standing.guard, evidence).code == 0
    again = world.play("order", WINDOWED)
    [executed] = shop.of("/order")
    assert (again.code, again.told["value"]) == (0, {"charge": executed.receipt})
    assert shop.keys("/order") == [executed.key] * 2
    world.check_leftovers()


@pytest.mark.clause(CONTAINER_STOP, "run.callback-guard.live-holder", "run.callback-guard.class")
@pytest.mark.parametrize("begins_at", [0])
def test_a_publication_of_a_stopped_container_stands_for_a_receipt_from_the_laptop(world: World) -> None:
    shop = world.shops[KEYLESS]
    shop.manners.append(Manner.ACTS_AND_HOLDS)
    with served_export(world, "to-keyless") as (serve, engine):
        for pid in (serve.pid, engine):
            os.kill(pid, signal.SIGKILL)
        while not gone(engine):
            time.sleep(0.02)
    standing = world.guard("export:to-keyless")
    assert standing is not None
    key = standing.guard.idempotency_key
    found = shop.under(key)
    assert found is not None
    receipt = f"receipt:{key}:{found.receipt}"

    at_once = world.reconcile(standing.guard, receipt)
    live = world.contextful("export", "run", "to-keyless", "--json")
    assert at_once.error == "ExecutionGuardHeld"
    assert (live.code, live.error) == (75, "ExecutionLive")

    world.advance(LATER_MS)
    blocked = world.contextful("export", "run", "to-keyless", "--json")
    [listed] = world.contextful("storage", "guard", "--project", PROJECT, "--json").json["guards"]
    assert (blocked.code, blocked.error) == (75, "ExecutionTransferBlocked")
    assert (listed["token"], listed["evidence_class"]) == (standing.guard.token, "receipt-required")

    assert world.reconcile(standing.guard, receipt, laptop=False).code == 0
    published = world.contextful("export", "run", "to-keyless", "--json")
    assert (published.code, published.json["status"], published.json["rows"]) == (0, "success", 2)
    assert [each.key for each in shop.executed] == [key]
    world.check_leftovers()


@pytest.mark.clause("run.callback-guard.holder-gone", "run.callback-guard.replay")
@pytest.mark.parametrize("begins_at", [0])
def test_a_publication_whose_engine_serve_has_reaped_is_sent_again_under_its_key_without_anybody(world: World) -> None:
    shop = world.shops[WINDOWED]
    shop.manners.append(Manner.ACTS_AND_HOLDS)
    with served_export(world, "to-windowed") as (serve, engine):
        os.kill(engine, signal.SIGKILL)
        _, said = serve.communicate(timeout=60)
    assert serve.returncode == 128 + signal.SIGKILL
    assert "is recorded" in said
    standing = world.guard("export:to-windowed")
    assert standing is not None
    assert standing.holder_exited_at is not None

    world.advance()
    published = world.contextful("export", "run", "to-windowed", "--json")

    told: dict[str, Any] = json.loads(published.out)
    assert (published.code, told["status"], told["rows"]) == (0, "success", 2)
    assert [each.key for each in shop.executed] == [standing.guard.idempotency_key]
    assert [key for key, _ in shop.arrived] == [standing.guard.idempotency_key] * 2
    world.check_leftovers()
