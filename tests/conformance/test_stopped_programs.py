"""What runs beside a run, a program or a thread, when the run is stopped."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import (
    Canceled,
)
from engine.execution.aside import Aside
from engine.execution.cancellation import Cancellation
from engine.execution.subprocesses import KILL_AFTER_MS, OUTPUT_LIMIT, run
from engine.shapes import RunStatus
from engine.stop import stop
from tests.stops import polled, stopped_while

if TYPE_CHECKING:
    from engine.execution.call import Call
    from tests.stores import Store


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


@pytest.mark.clause("run.cancel.child-reaped")
def test_a_stop_right_behind_the_start_leaves_neither_the_program_nor_its_pipes() -> None:
    class TrippedBehindTheStart(Cancellation):
        checks = 0

        def check(self) -> None:
            self.checks += 1
            if self.checks == 2:
                self.trip(Canceled("enough"))
            super().check()

    with warnings.catch_warnings(record=True) as leaks:
        warnings.simplefilter("always")
        with pytest.raises(Canceled):
            run(["sleep", "60"], cancellation=TrippedBehindTheStart())

    assert [str(leak.message) for leak in leaks] == []


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
    # A process that was started to ignore interrupts, as one in the background is, raises none by itself.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    token, abandoned, release = Cancellation(), [], threading.Event()
    aside = Aside(token, name="beside", abandoning=lambda: abandoned.append(True))

    def blocks() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        release.wait(10)

    with pytest.raises(KeyboardInterrupt):
        aside.run(blocks)
    signal.signal(signal.SIGINT, before)
    release.set()
    aside.close(lambda: None)

    assert abandoned == [True]
