"""Stops: a mark in the catalog is what asks, one token a run is what hears, and nothing is left at work behind it."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from engine.catalog import rebuild
from engine.errors import (
    Canceled,
    CancelTargetNotInFlight,
    StorageUnusable,
    Transient,
)
from engine.execution.aside import Aside
from engine.execution.cancellation import Cancellation
from engine.execution.stopping import POLL_MS
from engine.execution.subprocesses import KILL_AFTER_MS, OUTPUT_LIMIT
from engine.shapes import Phase, RunStatus, Schedule
from engine.sql import call
from engine.stop import stop
from engine.stops import StopScope
from tests.stores import LEASE, Effect, Store, failing

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.execution.call import Call
    from engine.execution.held import Held
    from engine.host import Engine
    from engine.runs import RunRow
    from tests.clocks import SettableClock


def polled(store: Store, engine: Engine | None = None) -> None:
    """Let half a second pass for the keeper."""
    store.clock.advance(POLL_MS)
    (engine or store.here).keeper.wake()


def heard(held: Held) -> bool:
    """Whether the token is tripped within seconds: the keeper works on a thread of its own."""
    return held.cancellation._event.wait(5)


def reason(held: Held) -> str:
    with pytest.raises(Canceled) as stopped:
        held.cancellation.check()
    return str(stopped.value)


def stopped_while(store: Store, work: Callable[[], Any], run_id: str) -> RunRow:
    """The row of a run whose `work` blocks until somebody stops it from outside."""

    def ask() -> None:
        stop(store.here.profile, run_id)
        polled(store)

    asking = threading.Timer(0.05, ask)
    asking.start()
    with pytest.raises(Canceled):
        work()
    asking.join()
    return store.run(run_id)


@pytest.mark.clause("run.cancel.catalog-channel")
def test_a_request_stands_on_the_run_row_with_its_instant_scope_and_reason(store: Store, clock: SettableClock) -> None:
    execution = store.open()
    clock.advance(7)

    marked = stop(store.profile(), execution.run_id, scope=StopScope.PIPELINE, reason="wrong month")

    assert marked == [execution.run_id]
    standing = {"requested_at": clock.now(), "scope": "pipeline", "reason": "wrong month"}
    assert store.run(execution.run_id).stop == standing
    assert store.run(execution.run_id).projection()["stop"]["requested_at"] == "2027-01-15T08:00:00.007Z"
    execution.close()


@pytest.mark.clause("run.cancel.catalog-channel")
def test_a_newer_request_overwrites_an_older_one(store: Store, clock: SettableClock) -> None:
    execution = store.open()
    stop(store.profile(), execution.run_id, scope=StopScope.PIPELINE, reason="wrong month")
    clock.advance(1)

    stop(store.profile(), execution.run_id)

    assert store.run(execution.run_id).stop == {"requested_at": clock.now(), "scope": "run", "reason": None}
    execution.close()


@pytest.mark.clause("run.cancel.catalog-channel")
def test_a_mark_alone_reaches_a_run_of_another_engine(store: Store) -> None:
    elsewhere = store.engine()
    held = store.held(engine=elsewhere)

    stop(store.here.profile, held.attempt.run_id, reason="wrong month")
    polled(store, elsewhere)

    assert heard(held)
    assert reason(held) == "stopped on request: wrong month"


@pytest.mark.clause("run.cancel.catalog-channel", "run.record.rebuild-restores-history")
def test_a_rebuilt_catalog_keeps_every_request(store: Store) -> None:
    execution = store.open()
    stop(store.profile(), execution.run_id, reason="wrong month")
    mark = store.run(execution.run_id).stop

    rebuild(store.profile(), declared=())

    assert store.run(execution.run_id).stop == mark
    execution.close()


@pytest.mark.clause("run.cancel.host-grain", "run.cancel.two-grains")
def test_a_pipeline_stop_of_a_host_run_reaches_its_host_scope_and_no_other(store: Store, clock: SettableClock) -> None:
    first, second = store.stalled(), store.stalled()
    superseded = store.held("ours", engine=first)
    clock.advance(LEASE)
    active, other = store.held("ours", engine=second), store.held("other", engine=second)

    marked = stop(store.profile(), active.attempt.run_id, scope=StopScope.PIPELINE)

    assert marked == sorted([superseded.attempt.run_id, active.attempt.run_id])
    assert store.run(other.attempt.run_id).stop is None


@pytest.mark.clause("run.cancel.two-grains")
def test_a_run_stop_reaches_that_run_alone(store: Store) -> None:
    held = [store.held(scope) for scope in ("one", "two")]

    stop(store.profile(), held[0].attempt.run_id)
    polled(store)

    assert heard(held[0])
    held[1].cancellation.check()


@pytest.mark.clause("run.cancel.two-grains")
def test_a_stored_scope_nobody_knows_reads_as_run(store: Store) -> None:
    execution = store.open()

    store.here.profile.database.run(call("stop_runs", run_id=execution.run_id, scope="galaxy", reason=None))

    row = store.run(execution.run_id)
    assert row.stop is not None
    assert row.stop["scope"] == "run"
    execution.close()


@pytest.mark.clause("run.cancel.poll-interval")
def test_the_marks_are_read_every_half_second(store: Store, clock: SettableClock) -> None:
    held = store.held()
    assert POLL_MS == 500
    clock.advance(499)
    store.here.keeper.wake()
    stop(store.profile(), held.attempt.run_id)
    store.here.keeper.wake()
    early = held.cancellation._event.wait(0.1)

    clock.advance(1)
    store.here.keeper.wake()

    assert not early
    assert heard(held)


@pytest.mark.clause("run.cancel.poll-interval", "run.cancel.engine-keeper")
def test_one_read_serves_all_that_an_engine_has_open(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    held = [store.held(f"job-{number}") for number in range(20)]
    reads = []
    run = store.here.stopping._db.run
    seen = threading.Event()

    def counted(*calls: Any) -> Any:
        reads.append(calls)
        seen.set()
        return run(*calls)

    database = type("Counted", (), {"run": staticmethod(counted)})()
    monkeypatch.setattr(store.here.stopping, "_db", database)
    polled(store)

    assert seen.wait(5)
    assert len(reads) == 1
    assert len(held) == 20


@pytest.mark.clause("run.cancel.poll-interval")
def test_a_run_that_is_marked_before_its_first_step_does_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = store.here.owners.open

    def marked_at_once(*arguments: Any, **options: Any) -> Any:
        attempt = opened(*arguments, **options)
        stop(store.here.profile, attempt.attempt.run_id)
        return attempt

    monkeypatch.setattr(store.here.owners, "open", marked_at_once)
    effect = Effect()

    with pytest.raises(Canceled), store.open() as execution:
        execution.step("one", effect)

    assert effect.calls == 0
    assert store.statuses() == [RunStatus.CANCELED]


@pytest.mark.clause("run.cancel.storage-blip")
def test_a_read_that_fails_is_warned_of_and_the_next_one_hears(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    held = store.held()
    stop(store.profile(), held.attempt.run_id)
    failed = threading.Event()

    def away(*_: Any) -> NoReturn:
        failed.set()
        raise StorageUnusable(place="the catalog", reason="away for a moment")

    with monkeypatch.context() as blip, caplog.at_level(logging.WARNING, logger="contextful"):
        blip.setattr(store.here.stopping, "_db", type("Away", (), {"run": staticmethod(away)})())
        polled(store)
        assert failed.wait(5)
        store.held("opened meanwhile").cancellation.check()
    polled(store)

    assert heard(held)
    assert "a keeper job failed" in caplog.text
    assert "is asked to stop could not be read" in caplog.text


@pytest.mark.clause("run.cancel.not-in-flight")
@pytest.mark.parametrize("ending", [None, Transient("cut off"), Canceled("interrupted")])
def test_a_run_that_has_ended_takes_no_mark(store: Store, ending: Exception | None) -> None:
    execution = store.open()
    execution.step("one", Effect())
    execution.close(failure=ending)  # type: ignore[arg-type] # parametrized
    status = str(store.run(execution.run_id).status)

    with pytest.raises(CancelTargetNotInFlight) as refusal:
        stop(store.profile(), execution.run_id)

    assert refusal.value.facts == {"run_id": execution.run_id, "status": status}
    assert refusal.value.exit_code == 1
    assert store.run(execution.run_id).stop is None


@pytest.mark.clause("run.cancel.not-in-flight")
def test_a_run_nobody_recorded_takes_no_mark(store: Store) -> None:
    with pytest.raises(CancelTargetNotInFlight, match="r-never is not in flight: it is not recorded"):
        stop(store.profile(), "r-never", scope=StopScope.PIPELINE)


@pytest.mark.clause("run.cancel.authority-from-the-record")
def test_who_may_stop_is_asked_of_the_recorded_row_before_anything_is_marked(store: Store) -> None:
    execution = store.open("ours")
    asked: list[RunRow] = []

    def refuse(row: RunRow) -> None:
        asked.append(row)
        raise PermissionError

    with pytest.raises(PermissionError):
        stop(store.profile(), execution.run_id, scope=StopScope.PIPELINE, authorize=refuse)

    assert [row.host_scope for row in asked] == ["ours"]
    assert store.run(execution.run_id).stop is None
    execution.close()


@pytest.mark.clause("run.cancel.one-token", "run.cancel.resumable-remains")
def test_a_stop_ends_a_retry_sleep_and_keeps_the_budget_that_was_left(store: Store) -> None:
    waits = Schedule(attempts=5, base_ms=60_000, max_delay_ms=60_000, jitter_ms=0)

    def noticed(*_: Any) -> None:
        stop(engine.profile, execution.run_id)
        engine.stopping._poll()

    engine = store.engine(noticed=noticed)
    execution = store.open(engine=engine)
    execution.step("recorded", Effect())

    with pytest.raises(Canceled), execution:
        execution.step("flaky", Effect(failing(Transient("cut off"))), schedule=waits)

    assert store.run(execution.run_id).status is RunStatus.CANCELED
    assert store.clock.waits == []
    (flaky,) = [entry for entry in store.entries(execution.execution_id) if entry.key.step == "flaky"]
    assert flaky.attempts == 1
    again = store.open()
    resumed = Effect()
    again.step("flaky", resumed, schedule=waits)
    assert (again.execution_id, resumed.attempts) == (execution.execution_id, [2])
    again.close()


@pytest.mark.clause("run.cancel.one-token", "run.cancel.resumable-remains")
def test_an_effect_that_heeds_the_token_uses_up_no_attempt(store: Store) -> None:
    execution = store.open()
    execution.step("recorded", Effect())
    schedule = Schedule(attempts=5, base_ms=1, jitter_ms=0)

    def heeding(call: Call) -> None:
        if call.attempt == 1:
            raise Transient("cut off")
        store.here.stop("interrupted")
        call.cancellation.check()

    with pytest.raises(Canceled), execution:
        execution.step("long", heeding, schedule=schedule)

    again, resumed = store.open(engine=store.engine()), Effect()
    again.step("long", resumed, schedule=schedule)
    assert resumed.attempts == [2]
    again.close()


@pytest.mark.clause("run.cancel.one-token")
def test_a_stop_ends_a_wait_for_an_outside_party(store: Store) -> None:
    execution = store.open()

    def work() -> None:
        with store.clock.standing(), execution:
            execution.wait("approval", ttl_ms=60_000)

    row = stopped_while(store, work, execution.run_id)

    assert row.status is RunStatus.CANCELED
    owner = store.owner()
    assert owner is not None
    assert owner.execution_id == execution.execution_id


@pytest.mark.clause("run.cancel.one-token")
def test_every_branch_of_a_join_hears_the_one_token(store: Store) -> None:
    execution = store.open()

    def work() -> None:
        with store.clock.standing(), execution:
            execution.join("both", {name: lambda branch: branch.wait("it", ttl_ms=60_000) for name in ("a", "b")})

    assert stopped_while(store, work, execution.run_id).status is RunStatus.CANCELED


@pytest.mark.clause("run.cancel.one-token", "run.cancel.resumable-remains")
def test_an_effect_at_work_when_it_is_stopped_is_recorded_and_nothing_follows(store: Store) -> None:
    execution = store.open()

    def charge(_: Call) -> str:
        stop(store.here.profile, execution.run_id)
        store.here.stopping._poll()
        return "charged"

    with pytest.raises(Canceled), execution:
        execution.step("charge", charge)

    assert store.run(execution.run_id).status is RunStatus.CANCELED
    again = store.open()
    never = Effect()
    assert again.step("charge", never) == "charged"
    assert never.calls == 0
    again.close()


@pytest.mark.clause("run.cancel.distinct-terminal-status", "run.cancel.abandoned-work")
def test_a_stopped_run_ends_canceled_and_not_failed(store: Store) -> None:
    execution = store.open()

    stop(store.here.profile, execution.run_id, reason="wrong month")
    store.here.stopping._poll()
    with pytest.raises(Canceled), execution:
        execution.step("one", Effect())

    row = store.run(execution.run_id)
    assert row.status is RunStatus.CANCELED
    assert row.status.terminal
    assert row.error == {"tag": "Canceled", "name": "Canceled", "message": "stopped on request: wrong month"}
    assert row.stop is not None
    recorded = {row.run_id: row for row in store.here.history.rows()}[execution.run_id]
    assert (recorded.status, recorded.stop) == (row.status, row.stop)
    assert Phase.COMMIT in {name.rsplit("-", 2)[1] for name in store.here.profile.objects.list("_runs/")}


@pytest.mark.clause("run.cancel.resumable-remains")
def test_a_stopped_run_that_recorded_nothing_leaves_nothing_pending(store: Store) -> None:
    execution = store.open()

    store.here.stop("interrupted")
    with pytest.raises(Canceled), execution:
        execution.step("one", Effect())

    assert store.owner() is None


@pytest.mark.clause("run.cancel.one-token")
def test_what_is_opened_by_an_engine_that_is_stopped_does_nothing(store: Store) -> None:
    engine = store.engine()
    engine.stop("interrupted")
    effect = Effect()

    with pytest.raises(Canceled, match="interrupted"), store.open(engine=engine) as execution:
        execution.step("one", effect)

    assert effect.calls == 0


STUBBORN = """
trap '' TERM
(trap '' TERM; while :; do sleep 0.05; done) &
(trap '' TERM; while :; do sleep 0.05; done) &
echo $! > "$1.tmp"; mv "$1.tmp" "$1"
while :; do sleep 0.05; done
"""


@pytest.mark.clause("run.cancel.child-reaped", "run.cancel.one-token")
def test_a_group_that_ignores_term_is_gone_before_the_run_is_recorded_canceled(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "started"
    execution = store.open()
    gone_at_close: list[bool] = []
    release = store.here.owners.retire

    def watched(*arguments: Any, **options: Any) -> None:
        gone_at_close.append(not at_work(int(started.read_text())))
        release(*arguments, **options)

    monkeypatch.setattr(store.here.owners, "retire", watched)

    def work() -> None:
        with execution:
            execution.step("child", lambda c: c.run(["sh", "-c", STUBBORN, "sh", started], kill_after_ms=200).code)

    def ask() -> None:
        while not started.exists():
            time.sleep(0.005)
        stop(store.here.profile, execution.run_id)
        polled(store)

    asking = threading.Thread(target=ask)
    asking.start()
    with pytest.raises(Canceled):
        work()
    asking.join()

    assert store.run(execution.run_id).status is RunStatus.CANCELED
    assert gone_at_close == [True]


def at_work(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.clause("run.cancel.child-reaped")
def test_a_group_that_heeds_term_is_not_kept_for_the_whole_grace(store: Store) -> None:
    execution = store.open()
    began = time.monotonic()

    def work() -> None:
        with execution:
            execution.step("child", lambda c: c.run(["sleep", "60"]).code)

    row = stopped_while(store, work, execution.run_id)

    assert KILL_AFTER_MS == 10_000
    assert row.status is RunStatus.CANCELED
    assert time.monotonic() - began < 5


def test_a_program_hands_back_its_code_and_the_beginning_of_what_it_wrote(store: Store) -> None:
    script = "import os,sys; sys.stdout.write('x' * 300000 + os.environ['CONTEXTFUL_IDEMPOTENCY_KEY']); sys.exit(3)"
    with store.open() as execution:

        def effect(c: Call) -> dict[str, Any]:
            done = c.run([sys.executable, "-c", script], output_limit=1000)
            return {"code": done.code, "out": len(done.out), "truncated": done.truncated}

        assert execution.step("child", effect) == {"code": 3, "out": 1000, "truncated": True}
        assert execution.step("echo", lambda c: c.run(["cat"], stdin=b"hello").checked().out) == b"hello"
    assert OUTPUT_LIMIT == 1 << 20


def test_a_program_that_fails_or_is_not_there_is_a_permanent_failure(store: Store) -> None:
    execution = store.open()

    with pytest.raises(Exception, match="sh ended with 7: no such luck"):
        execution.step("fails", lambda c: c.run(["sh", "-c", "echo no such luck >&2; exit 7"]).checked().code)
    with pytest.raises(Exception, match="no-such-program cannot be started"):
        execution.step("missing", lambda c: c.run(["no-such-program"]).code)

    execution.close(failure=Canceled("enough"))


@pytest.mark.clause("run.cancel.one-token")
def test_work_beside_a_run_is_left_as_soon_as_the_token_is_tripped() -> None:
    token, abandoned, release, late = Cancellation(), [], threading.Event(), threading.Event()
    aside = Aside(token, name="beside", abandoning=lambda: abandoned.append(True))
    assert aside.run(lambda: threading.current_thread().name) == "beside"

    def blocks() -> None:
        token.trip(Canceled("enough"))
        release.wait(10)

    with pytest.raises(Canceled, match="enough"):
        aside.run(blocks)
    aside.close(late.set)
    closed_early = late.is_set()
    release.set()

    assert abandoned == [True]
    assert not closed_early
    assert late.wait(5)


def test_handing_work_over_costs_less_than_a_tenth_of_a_millisecond() -> None:
    aside = Aside(Cancellation(), name="beside", abandoning=lambda: None)

    def round_ms() -> float:
        began = time.perf_counter()
        for _ in range(100):
            aside.run(lambda: None)
        return (time.perf_counter() - began) * 1000 / 100

    # The best of many: another process may be at work at any moment.
    assert min(round_ms() for _ in range(30)) < 0.1
    aside.close(lambda: None)


def test_an_interrupt_of_the_waiting_abandons_the_work_too() -> None:
    token, abandoned, release = Cancellation(), [], threading.Event()
    aside = Aside(token, name="beside", abandoning=lambda: abandoned.append(True))

    def blocks() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        release.wait(10)

    with pytest.raises(KeyboardInterrupt):
        aside.run(blocks)
    release.set()
    aside.close(lambda: None)

    assert abandoned == [True]
