"""`run stop` as it is meant to be used: one process runs, another stops it."""

from __future__ import annotations

import signal
import time
from datetime import datetime
from typing import TYPE_CHECKING, Final

import pytest

from engine.demo.api import DemoApi, Manners
from tests.cli.conftest import QUAKES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Shell

TWO: Final = """
[[pipeline.table]]
name = "again"
primary_key = ["id"]
"""


@pytest.fixture
def throttling() -> Iterator[DemoApi]:
    """An API that asks to wait a second, and again."""
    with DemoApi(manners=Manners(throttle_at=3, slow_at=0)) as api:
        yield api


@pytest.mark.clause("run.cancel.catalog-channel", "run.cancel.abandoned-work", "run.cancel.resumable-remains")
def test_another_process_stops_a_run_within_a_second_and_the_next_goes_on(
    shell: Shell, slow_third_page: DemoApi
) -> None:
    shell.write("contextful.toml", QUAKES.format(url=slow_third_page.url))
    running = shell.start("pipeline", "run", "quakes", "--run-id", "first")
    assert slow_third_page.slow_page.wait(30)

    told = shell.script("run", "stop", "first", "--reason", "wrong month")
    _, err = running.communicate(timeout=30)

    assert (told.code, told.out) == (0, "run first is asked to stop (it is running)\n")
    assert running.returncode == 130
    assert "Canceled: stopped on request: wrong month" in err
    assert "next: contextful pipeline run quakes --table quakes" in err
    assert "Traceback" not in err
    stopped = shell.json("run", "show", "first")
    assert (stopped["status"], stopped["rows"], stopped["owner"]) == ("canceled", 0, None)
    assert (stopped["stop"]["scope"], stopped["stop"]["reason"]) == ("run", "wrong month")
    assert seconds(stopped["stop"]["requested_at"], stopped["ended_at"]) < 1
    assert shell.json("read")["tables"] == []
    (pending,) = shell.json("status")["pending"]
    assert (pending["state"], pending["attempt"], pending["recorded"]) == ("pending", None, 2)
    resumed = shell.json("pipeline", "run", "quakes")
    assert (resumed["runs"][0]["replayed"], resumed["runs"][0]["rows"]) == (2, 1707)


def seconds(earlier: str, later: str) -> float:
    begun, ended = datetime.fromisoformat(earlier), datetime.fromisoformat(later)
    return (ended - begun).total_seconds()


@pytest.mark.clause("run.cancel.two-grains")
def test_a_pipeline_stop_from_outside_leaves_the_next_table_unread(shell: Shell, slow_third_page: DemoApi) -> None:
    shell.write("contextful.toml", QUAKES.format(url=slow_third_page.url) + TWO)
    running = shell.start("pipeline", "run", "quakes", "--json", "--run-id", "first")
    assert slow_third_page.slow_page.wait(30)

    marked = shell.json("run", "stop", "first.quakes", "--scope", "pipeline")
    out, _ = running.communicate(timeout=30)

    assert [run["run_id"] for run in marked["marked"]] == ["first.quakes"]
    assert running.returncode == 130
    assert '"state": "canceled"' in out
    assert [run["run_id"] for run in shell.json("run", "list")["runs"]] == ["first.quakes"]


@pytest.mark.clause("run.cancel.one-token")
def test_ctrl_c_ends_a_wait_the_vendor_asked_for(shell: Shell, throttling: DemoApi) -> None:
    shell.write("contextful.toml", QUAKES.format(url=throttling.url))
    running = shell.start("pipeline", "run", "quakes", "--run-id", "first")
    deadline = time.monotonic() + 30
    while not any(asked.status == 429 for asked in throttling.asked()) and time.monotonic() < deadline:
        time.sleep(0.01)

    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=30)

    assert running.returncode == 130
    assert "Canceled: interrupted" in err
    stopped = shell.json("run", "show", "first")
    assert (stopped["status"], stopped["batches"]) == ("canceled", 2)


@pytest.mark.clause("run.cancel.not-in-flight")
def test_a_stop_of_what_is_not_in_flight_fails_and_names_its_status(shell: Shell) -> None:
    shell.orders()
    done = shell.json("pipeline", "run", "orders")["runs"][0]["run_id"]

    ended = shell("run", "stop", done, "--json")
    unknown = shell("run", "stop", "r-never")

    assert ended.code == 1
    assert (ended.error["name"], ended.error["status"]) == ("CancelTargetNotInFlight", "success")
    assert unknown.code == 1
    assert unknown.err.startswith("CancelTargetNotInFlight: run r-never is not in flight: it is not recorded")


def test_a_scope_that_does_not_exist_is_bad_usage(shell: Shell) -> None:
    shell.orders()

    ended = shell("run", "stop", "r-1", "--scope", "galaxy")

    assert ended.code == 2
    assert "galaxy" in ended.err
