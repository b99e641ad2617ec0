"""One keeper an engine: it renews what is open, tells what was lost, and goes when nothing is left."""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from engine.clock import SystemClock
from engine.errors import ExecutionSuperseded
from engine.execution.keeper import LEASE_MS, RENEW_MS, Keeper
from engine.shapes import RunStatus
from tests.stores import LEASE, Effect, Store
from tests.waits import soon

if TYPE_CHECKING:
    from tests.clocks import SettableClock

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def lease_until(store: Store, scope: str = "job") -> int:
    owner = store.owner(scope)
    return owner.lease_until if owner else 0


@pytest.mark.clause("run.cancel.engine-keeper")
def test_one_thread_renews_twenty_owners_and_exits_with_the_last(store: Store, clock: SettableClock) -> None:
    engine = store.engine()
    before = {thread.ident for thread in threading.enumerate()}
    opened = [store.open(f"job-{number}", engine=engine) for number in range(20)]
    keepers = [t for t in threading.enumerate() if t.ident not in before and t.name == "contextful-keeper"]

    clock.advance(RENEW_MS)
    engine.keeper.wake()
    until = clock.now() + LEASE
    renewed = soon(lambda: {lease_until(store, f"job-{number}") for number in range(20)} == {until})
    for execution in opened[:10]:
        execution.close()
    running = engine.keeper.running
    del execution, opened
    gc.collect()

    assert len(keepers) == 1
    assert renewed
    assert running
    assert engine.keeper.join(5)


@pytest.mark.clause("run.record.owner-lease")
def test_a_lease_lives_thirty_seconds_and_is_renewed_every_ten(store: Store, clock: SettableClock) -> None:
    opened_at = clock.now()
    execution = store.open()
    assert (LEASE_MS, RENEW_MS) == (30_000, 10_000)
    assert lease_until(store) == opened_at + 30_000

    clock.advance(9_999)
    store.here.keeper.wake()
    time.sleep(0.05)
    early = lease_until(store)
    clock.advance(1)
    store.here.keeper.wake()

    assert early == opened_at + 30_000
    assert soon(lambda: lease_until(store) == opened_at + 40_000)
    execution.close()


@pytest.mark.clause("run.record.owner-lease")
def test_a_running_row_shows_who_holds_it_and_until_when(store: Store, clock: SettableClock) -> None:
    execution = store.open()

    owner = store.run(execution.run_id).owner

    assert owner is not None
    assert owner.lease_expires_at == clock.now() + LEASE
    assert owner.pid == os.getpid()
    assert owner.boot_id == (BOOT_ID.read_text().strip() if BOOT_ID.exists() else "unknown")


@pytest.mark.clause("run.record.owner-lease")
def test_a_lease_that_lapsed_while_nobody_took_the_owner_lives_on(store: Store, clock: SettableClock) -> None:
    execution = store.open()
    clock.advance(80_000)
    store.here.keeper.wake()

    assert soon(lambda: lease_until(store) == clock.now() + LEASE)
    assert execution.step("one", Effect("after the sleep")) == "after the sleep"


@pytest.mark.clause("run.cancel.engine-keeper", "run.own.unclosed-execution")
def test_a_dropped_handle_is_renewed_no_more_though_its_engine_keeps_others_alive(
    store: Store, clock: SettableClock
) -> None:
    engine = store.engine()
    kept, dropped = (store.open(scope, engine=engine) for scope in ("kept", "dropped"))
    dropped.step("one", Effect())
    del dropped
    gc.collect()
    for _ in range(5):
        clock.advance(RENEW_MS)
        engine.keeper.wake()
        assert soon(lambda: lease_until(store, "kept") == clock.now() + LEASE)

    with store.open("dropped") as resumed:
        assert resumed.resumed

    assert kept.step("two", Effect("at work")) == "at work"


@pytest.mark.clause("run.cancel.engine-keeper", "run.journal.current-owner")
def test_an_attempt_that_lost_its_owner_is_told_at_its_next_renewal(store: Store, clock: SettableClock) -> None:
    engine = store.stalled()
    stalled = store.held(engine=engine)
    clock.advance(LEASE)
    store.open()
    store.wake(engine)

    def tripped() -> bool:
        try:
            stalled.cancellation.check()
        except ExecutionSuperseded:
            return True
        return False

    assert soon(tripped)


@pytest.mark.clause("run.cancel.keeper-panic")
def test_a_job_that_raises_is_warned_of_and_stops_no_other(
    clock: SettableClock, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = Keeper(clock)
    ran: list[str] = []

    def panics() -> None:
        ran.append("panics")
        raise RuntimeError("one adapter's panic")

    with caplog.at_level(logging.WARNING, logger="contextful"):
        first = keeper.register(panics, every_ms=1_000)
        second = keeper.register(lambda: ran.append("works"), every_ms=1_000)
        for turn in range(1, 4):
            clock.advance(1_000)
            keeper.wake()
            assert soon(partial(_ran, ran, turn))

    assert "keeper job failed" in caplog.text
    keeper.end(first)
    keeper.end(second)
    assert keeper.join(5)


@pytest.mark.clause("run.cancel.keeper-panic")
def test_a_last_job_that_raises_ends_its_own_registration_and_no_other(
    clock: SettableClock, caplog: pytest.LogCaptureFixture
) -> None:
    keeper = Keeper(clock)
    ran: list[str] = []

    def panics() -> None:
        raise RuntimeError("the store is away as a handle is dropped")

    dropped, other = (keeper.register(lambda: ran.append("works"), every_ms=1_000) for _ in range(2))
    with caplog.at_level(logging.WARNING, logger="contextful"):
        keeper.end(dropped, last=panics)
        warned = soon(lambda: "keeper job failed" in caplog.text)
    clock.advance(1_000)
    keeper.wake()

    assert warned
    assert soon(lambda: ran == ["works"])
    keeper.end(other)
    assert keeper.join(5)


@pytest.mark.clause("run.cancel.engine-keeper")
def test_the_keeper_sleeps_until_the_earliest_deadline_and_no_shorter() -> None:
    readings: list[int] = []

    class Read(SystemClock):
        def now(self) -> int:
            readings.append(super().now())
            return readings[-1]

    keeper = Keeper(Read())
    ran: list[str] = []
    late = keeper.register(lambda: ran.append("late"), every_ms=60_000)
    time.sleep(0.3)
    looked = len(readings)
    early = keeper.register(lambda: ran.append("early"), every_ms=20)

    assert looked < 10
    assert soon(lambda: ran[:3] == ["early"] * 3)
    keeper.end(early)
    keeper.end(late)
    assert keeper.join(5)


@pytest.mark.clause("run.cancel.engine-keeper")
def test_a_closed_engine_keeps_no_thread_and_warns_of_no_handle_it_left_open(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    engine = store.engine()
    handle = store.open("job", engine=engine)

    engine.close()
    running = engine.keeper.running
    del handle
    gc.collect()

    assert not running
    assert caplog.text == ""


@pytest.mark.clause("run.record.orphan-reap")
def test_startup_closes_the_rows_of_lapsed_leases_and_no_others(store: Store, clock: SettableClock) -> None:
    orphan = store.held("orphan", engine=store.stalled())
    clock.advance(LEASE - 1)
    live = store.held("live", engine=store.stalled())
    clock.advance(1)

    store.engine()

    assert store.run(orphan.attempt.run_id).status is RunStatus.PARTIAL_FAILURE
    assert store.run(orphan.attempt.run_id).ended_at == clock.now()
    assert store.run(live.attempt.run_id).status is RunStatus.RUNNING


@pytest.mark.clause("run.record.orphan-reap")
def test_a_reaped_attempts_recorded_work_is_resumed(store: Store, clock: SettableClock) -> None:
    crashed = store.elsewhere()
    crashed.step("one", Effect())
    clock.advance(LEASE)

    reaped = store.engine().runs.get(crashed.run_id)

    assert reaped is not None
    assert (reaped.status, reaped.execution_id) == (RunStatus.PARTIAL_FAILURE, crashed.execution_id)
    assert store.open().execution_id == crashed.execution_id


def _ran(ran: list[str], turns: int) -> bool:
    return ran == ["panics", "works"] * turns
