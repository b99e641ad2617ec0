"""`contextful serve` as users meet it, the installed script in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from engine.cli import session
from engine.cli.serve import due
from engine.clock import SystemClock
from engine.errors import RateLimited, Waiting
from engine.project import Project
from tests.cli.conftest import QUAKES, SCRIPT
from tests.serve.strays import alive
from worker.scheduled import COMMAND

if TYPE_CHECKING:
    from engine.demo.api import DemoApi
    from tests.cli.conftest import Shell

HOUR_MS = 3_600_000

MANIFEST = """\
[project]
name = "shop"
site_id = "laptop"

[[pipeline]]
id = "desk"
source = { kind = "python", entry = "desk:tickets" }

[[pipeline.table]]
name = "tickets"
primary_key = ["id"]
"""

SOURCE = """\
from pathlib import Path

import engine
from engine.errors import RateLimited

@engine.source("tickets")
def tickets(ask):
    if not Path("open").exists():
        raise RateLimited("slow down", wait_ms=3_600_000)
    yield engine.Pull(rows=[{"id": 1}], position=None, more=False)
"""


def exits(shell: Shell) -> list[bool]:
    """Whether each holder of the project was recorded gone."""
    with closing(sqlite3.connect(shell.folder / ".contextful" / "state.sqlite")) as state:
        rows = state.execute("SELECT exited_at FROM holders ORDER BY registered_at").fetchall()
    return [exited_at is not None for (exited_at,) in rows]


def line(process: subprocess.Popen[str], words: str) -> str:
    """The next line of a process's standard error that holds `words`."""
    assert process.stderr is not None
    for told in process.stderr:
        if words in told:
            return told
    raise AssertionError(f"it ended and never said {words!r}")


def test_a_command_is_run_as_an_engine_and_its_answer_and_exit_code_are_serve_s(shell: Shell) -> None:
    shell.orders()

    landed = shell.script("serve", "--", "pipeline", "run", "orders", "--json")
    refused = shell.script("serve", "--json", "--", "pipeline", "run", "nonsense")

    assert (landed.code, landed.document["state"]) == (0, "completed")
    assert "is recorded" in landed.err
    assert exits(shell) == [True]
    assert (refused.code, refused.error["name"]) == (2, "PipelineUnknown")


@pytest.mark.clause("run.retry.wake")
def test_what_cron_starts_is_a_command_line_that_runs(shell: Shell) -> None:
    shell.orders()

    ended = shell.script(*COMMAND)

    assert (ended.code, ended.out) == (0, "nothing waits\n")


def test_the_manifest_serve_is_given_is_its_engine_s(shell: Shell) -> None:
    shell.orders()
    (shell.folder / "elsewhere").mkdir()
    manifest = str((shell.folder / "contextful.toml").rename(shell.folder / "elsewhere" / "shop.toml"))
    (shell.folder / "orders.jsonl").rename(shell.folder / "elsewhere" / "orders.jsonl")

    ended = shell.script("serve", "--manifest", manifest, "--", "pipeline", "run", "orders")

    assert (ended.code, "2 rows landed" in ended.out, "is recorded" in ended.err) == (0, True, True)


def test_modules_in_the_working_directory_do_not_come_before_the_library_s(shell: Shell) -> None:
    shell.orders()
    shell.write("engine.py", "raise AssertionError('not the library')")

    assert shell.script("serve", "--", "pipeline", "list").code == 0


@pytest.mark.clause("run.callback-guard.holder-gone")
def test_a_stopped_serve_drains_its_engine_and_exits_as_it_does(shell: Shell, slow_third_page: DemoApi) -> None:
    shell.write("contextful.toml", QUAKES.format(url=slow_third_page.url))
    serve = shell.start("serve", "--", "pipeline", "run", "quakes", "--run-id", "first")
    assert slow_third_page.slow_page.wait(30)

    serve.send_signal(signal.SIGTERM)
    _, err = serve.communicate(timeout=30)

    assert serve.returncode == 130
    assert "Canceled: interrupted" in err
    assert shell.json("run", "show", "first")["status"] == "canceled"
    assert all(exits(shell))


def test_what_ran_before_serve_became_this_process_is_left_alone(shell: Shell) -> None:
    shell.orders()
    script = f"sleep 60 >/dev/null 2>&1 & echo $!; exec {SCRIPT} serve -- pipeline list"

    entry = subprocess.run(
        ["sh", "-c", script], cwd=shell.folder, stdout=subprocess.PIPE, text=True, timeout=30, check=True
    )
    before = int(entry.stdout.split()[0])
    runs_on = alive(before)
    os.kill(before, signal.SIGKILL)

    assert runs_on
    assert "orders" in entry.stdout


@pytest.mark.parametrize(
    ("command", "words"),
    [(["serve"], "no other serve"), (["run", "list", "--manifest=x"], "--manifest goes before the --")],
)
def test_a_command_whose_exits_would_go_unrecorded_is_refused(shell: Shell, command: list[str], words: str) -> None:
    shell.orders()

    ended = shell("serve", "--", *command)

    assert (ended.code, words in ended.err) == (2, True)


@pytest.mark.parametrize("command", [[], ["--", "run", "list"]])
def test_a_port_that_is_taken_exits_2_before_anything_starts(shell: Shell, command: list[str]) -> None:
    shell.orders()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = shell("serve", "--port", str(taken.getsockname()[1]), "--json", *command)

    assert (ended.code, ended.error["name"]) == (2, "AddressUnusable")
    assert not (shell.folder / ".contextful").exists()


def test_a_command_opens_no_port_unless_it_is_asked_to(shell: Shell, slow_third_page: DemoApi) -> None:
    shell.write("contextful.toml", QUAKES.format(url=slow_third_page.url))
    serve = shell.start("serve", "--", "pipeline", "run", "quakes")
    assert slow_third_page.slow_page.wait(30)

    listening = [entry for entry in _listening() if entry in _sockets(serve.pid)]
    serve.send_signal(signal.SIGTERM)
    serve.communicate(timeout=30)

    assert listening == []


@pytest.mark.clause("run.retry.wake")
def test_what_comes_due_is_gone_on_with_until_serve_is_stopped(shell: Shell) -> None:
    _waiting_table(shell)
    serve = shell.start("serve", "--port", "0", "--every", "100ms")
    url = line(serve, "answering at").split()[-1]
    answer = httpx.get(url, trust_env=False, timeout=10)

    _let_it_come_due(shell)
    due_line, end_line = line(serve, "due: "), line(serve, "the engine ended")
    serve.send_signal(signal.SIGTERM)
    out, _ = serve.communicate(timeout=30)

    assert (answer.status_code, answer.text) == (200, "ok\n")
    assert (due_line, end_line) == ("due: table:tickets\n", "the engine ended with 0\n")
    assert (serve.returncode, out) == (0, "1 engine started\n")
    assert shell.json("read", "SELECT count(*) FROM tickets")["rows"] == [[1]]
    assert all(exits(shell))


def test_serve_goes_on_beating_when_a_look_fails(shell: Shell) -> None:
    _waiting_table(shell)
    serve = shell.start("serve", "--port", "0", "--every", "100ms", "--json")
    line(serve, "answering at")
    time.sleep(0.3)
    shell.write("contextful.toml", "nonsense")
    line(serve, "ManifestInvalid")
    shell.write("contextful.toml", MANIFEST)
    _let_it_come_due(shell)

    line(serve, "the engine ended with 0")
    serve.send_signal(signal.SIGINT)
    out, _ = serve.communicate(timeout=30)

    assert (serve.returncode, out) == (0, '{"engines": 1}\n')


@pytest.mark.clause("run.retry.wake")
def test_only_what_an_engine_can_go_on_with_is_due(shell: Shell) -> None:
    _waiting_table(shell)
    with Project.find().engine() as engine, pytest.raises(Waiting), engine.open("nightly", plan="p") as execution:
        execution.step("ask", _throttled)
    early = due(None)
    session.clock.set(SystemClock(HOUR_MS))

    assert (early, due(None)) == ([], ["table:tickets"])


def _waiting_table(shell: Shell) -> None:
    """A project whose one table waits for an hour."""
    shell.write("contextful.toml", MANIFEST)
    shell.write("desk.py", SOURCE)
    assert shell.script("pipeline", "run", "desk").code == 75


def _let_it_come_due(shell: Shell) -> None:
    shell.write("open", "")
    with closing(sqlite3.connect(shell.folder / ".contextful" / "state.sqlite")) as state, state:
        state.execute("UPDATE journal SET next_attempt_at = 1 WHERE next_attempt_at IS NOT NULL")
        state.execute("UPDATE owners SET wake_at = 1 WHERE wake_at IS NOT NULL")


def _throttled(_: Any) -> None:
    raise RateLimited("slow down", wait_ms=HOUR_MS)


def _listening() -> list[str]:
    """The sockets of this machine that listen."""
    with open("/proc/net/tcp", encoding="ascii") as table:  # noqa: PTH123 - no file
        rows = [row.split() for row in table.read().splitlines()[1:]]
    return [f"socket:[{row[9]}]" for row in rows if row[3] == "0A"]


def _sockets(pid: int) -> set[str]:
    found = set()
    for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - no folder
        found.add(os.readlink(f"/proc/{pid}/fd/{name}"))  # noqa: PTH115
    return found
