"""Schedules drawn from seeds: crashes, throttles, late rows and duplicate pages, and what must be true behind them.

One that fails is replayed alone, told event by event: `./scripts/simulate 1234`.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

import pytest

from engine.shapes import FireState
from tests.clocks import SettableClock
from tests.scale import scale
from tests.simulation.books import Books
from tests.simulation.machine import LocalStore, Machine
from tests.simulation.schedule import SECOND, Drawn, drawn, failure
from tests.simulation.vendor import Vendor

if TYPE_CHECKING:
    from pathlib import Path

SEEDS: Final = scale(short=40, full=1_000)
SLICES: Final = 4
FOUND: Final = (43, 268)
"""Seeds that found something: a wait forgotten behind a checkpoint, commits unseen after a clock was set back."""

QUIET: Final = 12
"""Fires in which a table that nothing befalls any more has to come to rest."""

CHOSEN: Final = [int(seed) for seed in os.environ.get("CONTEXTFUL_SIMULATION_SEED", "").split()]


@pytest.mark.clause("run.own.checkpoint-resume", "run.own.checkpoint-frontier", "run.own.marker-reconciles")
@pytest.mark.clause("run.advance.inclusive-boundary", "run.advance.frontier", "run.advance.walk-position")
@pytest.mark.clause("run.advance.allowed-lateness", "run.advance.commit-with-rows", "run.own.one-commit-per-run")
@pytest.mark.clause("run.retry.not-before", "run.retry.resume-at", "run.retry.wake", "run.retry.no-double-spend")
@pytest.mark.clause("run.journal.replay-lands", "run.journal.collection")
@pytest.mark.parametrize("part", range(SLICES))
def test_whatever_befalls_a_table_no_row_is_lost_and_none_is_asked_for_in_vain(part: int, folder: Path) -> None:
    for seed in CHOSEN or {*range(SEEDS), *FOUND}:
        if seed % SLICES == part:
            play(drawn(seed), folder / str(seed))


def play(plan: Drawn, root: Path) -> None:
    """Play the schedule to its end, checking behind every fire."""
    clock = SettableClock()
    store = LocalStore(plan.profile, root, clock, dict).initialized()
    vendor = Vendor(clock, plan.size, seed=plan.seed, honours_since=plan.honours_since)
    machine = Machine(store, vendor, plan)
    books = Books(machine)
    try:
        befall(machine, books)
        settle(machine, books)
    except BaseException as wrong:
        wrong.add_note("\n".join([str(plan), *machine.told, f"replay it: ./scripts/simulate {plan.seed}"]))
        raise
    finally:
        machine.leave()
        shutil.rmtree(root)
    if CHOSEN:
        print("\n".join([str(plan), *machine.told]))


def befall(machine: Machine, books: Books) -> None:
    """Fire by fire what the schedule holds."""
    for number, moment in enumerate(machine.plan.moments):
        machine.set_clock(moment.pause_ms)
        machine.set_clock(moment.jump_ms)
        for arrival in moment.arrivals:
            identity = arrival.id if arrival.id is not None else min(machine.vendor.rows)
            machine.vendor.holds(identity, arrival.at, late=arrival.late)
        machine.vendor.refuses({at: failure(name) for at, name in moment.refusals.items()})
        machine.told.append(f"fire {number}: {len(moment.arrivals)} rows arrived, refusals {moment.refusals}")
        machine.beat(moment.incident)
        books.check()


def settle(machine: Machine, books: Books) -> None:
    """Fire until nothing is pending; instants are sat out. Then one fire more, which finds nothing new."""
    machine.vendor.refuses({})
    for _ in range(QUIET):
        owner = machine.engine.owners.read("table:orders")
        due = max((owner.wake_at or 0, owner.lease_until) if owner else (0,))
        machine.set_clock(max(due - machine.store.clock.now(), 0) + SECOND)
        outcome = machine.beat()
        books.check()
        if outcome and owner is None and outcome.state is FireState.COMPLETED:
            books.check_quiet()
            return
    pytest.fail(f"the table is not at rest after {QUIET} fires")
