"""Being stopped by hand, in a real process against a real server."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from engine.demo.api import DemoApi, Manners
from tests.cli.conftest import QUAKES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Shell


@pytest.fixture
def heeded() -> Iterator[None]:
    """Let processes that are started heed a hang-up, though whoever runs the tests may ignore it: a handler is not
    inherited."""
    standing = signal.signal(signal.SIGHUP, lambda *_: None)
    yield
    signal.signal(signal.SIGHUP, standing)


@pytest.mark.usefixtures("heeded")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_run_exits_130_and_the_next_resumes_at_once(
    shell: Shell, slow_third_page: DemoApi, number: signal.Signals
) -> None:
    shell.write("contextful.toml", QUAKES.format(url=slow_third_page.url))
    process = shell.start("pipeline", "run", "quakes", "--run-id", "first")
    assert slow_third_page.slow_page.wait(30)

    process.send_signal(number)
    _, err = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "Canceled: interrupted" in err
    assert "Traceback" not in err
    stopped = shell.json("run", "show", "first")
    assert (stopped["status"], stopped["rows"], stopped["owner"]) == ("canceled", 0, None)
    (pending,) = shell.json("status")["pending"]
    assert (pending["state"], pending["attempt"], pending["recorded"]) == ("pending", None, 2)
    assert shell.json("read")["tables"] == []

    resumed = shell.json("pipeline", "run", "quakes")

    assert (resumed["runs"][0]["status"], resumed["runs"][0]["replayed"], resumed["runs"][0]["rows"]) == (
        "success",
        2,
        1707,
    )


def test_a_hang_up_that_is_to_be_ignored_is(shell: Shell) -> None:
    """As under `nohup`."""
    with DemoApi(manners=Manners(throttle_at=0, slow_at=3, slow_s=1)) as api:
        shell.write("contextful.toml", QUAKES.format(url=api.url))
        standing = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            process = shell.start("pipeline", "run", "quakes", "--run-id", "first")
        finally:
            signal.signal(signal.SIGHUP, standing)
        assert api.slow_page.wait(30)

        process.send_signal(signal.SIGHUP)

        assert process.wait(60) == 0
    assert shell.json("run", "show", "first")["status"] == "success"


def test_an_interrupted_command_says_so_as_json(shell: Shell, slow_third_page: DemoApi) -> None:
    shell.write("contextful.toml", QUAKES.format(url=slow_third_page.url))
    process = shell.start("pipeline", "run", "quakes", "--json")
    assert slow_third_page.slow_page.wait(30)

    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)

    assert process.returncode == 130
    assert '"name": "Canceled"' in out


def test_a_wait_for_a_live_run_can_be_given_up(shell: Shell, slow_third_page: DemoApi) -> None:
    shell.write("contextful.toml", QUAKES.format(url=slow_third_page.url))
    shell.start("pipeline", "run", "quakes", "--run-id", "alive")
    assert slow_third_page.slow_page.wait(30)
    waiting = shell.start("pipeline", "run", "quakes", "--wait", "60s")
    assert waiting.stderr is not None
    assert waiting.stderr.readline().startswith("waiting up to 60 s for table:quakes: attempt alive holds it")

    waiting.send_signal(signal.SIGINT)

    assert waiting.wait(30) == 130
    (pending,) = shell.json("status")["pending"]
    assert (pending["attempt"], pending["state"]) == ("alive", "running")
