"""A process that is killed, and the one that comes after it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from engine.clock import SystemClock
from engine.host import Engine, Settings
from engine.shapes import RunStatus
from tests import children
from tests.stores import LEASE, PROJECT, Effect, died

if TYPE_CHECKING:
    from engine.execution.execution import Execution
    from tests.stores import Store


def after_the_lapse(store: Store) -> Engine:
    """An engine whose clock stands past every lease that a child has held."""
    clock = SystemClock(offset_ms=LEASE + 1)
    return Engine(store.profile(clock=clock), Settings(PROJECT, "site-1"), clock=clock)


@pytest.mark.clause("run.own.unclosed-execution", "run.journal.claim-takeover")
def test_a_host_execution_killed_mid_third_replays_two_steps_and_runs_the_third(store: Store) -> None:
    child = children.run("dies_in_the_third_step", store.profile_name, str(store.root), environ=store.environ)
    assert child.returncode == -signal.SIGKILL, child.stderr

    engine = after_the_lapse(store)
    reaped = engine.runs.since(0, ceiling=10)
    execution: Execution = store.open("index-42", engine=engine)
    values = [execution.step("one", died), execution.step("two", died), execution.step("three", Effect(3))]
    execution.close()

    assert values == [1, 2, 3]
    assert [row.status for row in reaped] == [RunStatus.PARTIAL_FAILURE]
    assert engine.owners.all() == []
    engine.close()


def test_what_a_change_left_half_written_is_no_entry(store: Store) -> None:
    child = children.run("dies_in_the_third_step", store.profile_name, str(store.root), environ=store.environ)
    assert child.returncode == -signal.SIGKILL, child.stderr
    engine = after_the_lapse(store)
    execution = store.open("index-42", engine=engine)

    entries = engine.profile.journal.entries(execution.execution_id)

    assert [(entry.key.step, entry.recorded) for entry in entries] == [("one", True), ("three", False), ("two", True)]
    engine.close()
