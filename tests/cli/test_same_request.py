"""Two commands at once that ask for the same: one run, its rows once, and either tells of it."""

from __future__ import annotations

import json
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from tests.answering import Answering, listening
from tests.cli.manifests import ORDERS_OVER_HTTP

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.cli.conftest import Shell

PAGES: Final = 12

KEYLESS: Final = (
    ORDERS_OVER_HTTP
    + """\
paginate = {{ by = "next-url", field = "next" }}

[[pipeline.table]]
name = "orders"
"""
)


class Pages(Answering):
    """One row a page; what follows the first is held back until `gate` is open."""

    gate: threading.Event
    reached: threading.Event

    def reply(self) -> None:
        page = int(self.path.partition("page=")[2] or 0)
        if page:
            self.reached.set()
            self.gate.wait(60)
        more = f"/orders?page={page + 1}" if page + 1 < PAGES else None
        self.answer(200, {"items": [{"id": page}], "next": more})


class Source:
    """The source's gate, and whether a run has come to it."""

    def __init__(self) -> None:
        self.gate, self.reached = threading.Event(), threading.Event()

    @contextmanager
    def serving(self) -> Iterator[str]:
        with listening(Pages, gate=self.gate, reached=self.reached) as url:
            try:
                yield url
            finally:
                self.gate.set()


@pytest.fixture
def source(shell: Shell) -> Iterator[Source]:
    source = Source()
    with source.serving() as url:
        shell.write("contextful.toml", KEYLESS.format(url=url))
        yield source


def asked(shell: Shell, *options: str) -> subprocess.Popen[str]:
    return shell.start("pipeline", "run", "orders", "--json", *options)


def told(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """How a command ended, and the runs it tells of."""
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    return process.returncode, [run["run_id"] for run in json.loads(out)["runs"]]


def first_to_end(*processes: subprocess.Popen[str]) -> list[subprocess.Popen[str]]:
    """The processes, the one that ends first before the other."""
    until = time.monotonic() + 60
    while time.monotonic() < until and all(process.poll() is None for process in processes):
        time.sleep(0.02)
    return sorted(processes, key=lambda process: process.poll() is None)


def landed(shell: Shell) -> tuple[int, int]:
    """How many rows the table has, and how many ids."""
    ((rows, ids),) = shell.json("read", "SELECT count(*) AS n, count(DISTINCT id) AS ids FROM orders")["rows"]
    return rows, ids


def test_two_at_once_under_one_run_id_that_wait_land_it_once(shell: Shell, source: Source) -> None:
    source.gate.set()
    twins = [asked(shell, "--run-id", "S", "--wait", "60s") for _ in range(2)]

    assert [told(twin) for twin in twins] == [(0, ["S"]), (0, ["S"])]
    assert landed(shell) == (PAGES, PAGES)
    assert [run["run_id"] for run in shell.json("run", "list")["runs"]] == ["S"]


def test_two_at_once_under_one_run_id_one_of_which_is_not_now(shell: Shell, source: Source) -> None:
    loser, winner = first_to_end(*(asked(shell, "--run-id", "S") for _ in range(2)))

    assert told(loser) == (75, [])
    source.gate.set()
    assert told(winner) == (0, ["S"])
    assert landed(shell) == (PAGES, PAGES)


@pytest.mark.parametrize(
    ("same", "named"), [("--run-id", "table:orders: attempt S"), ("--idempotency-key", "pipeline:orders: attempt f-")]
)
def test_one_that_comes_later_waits_and_tells_of_the_run_it_waited_for(
    shell: Shell, source: Source, same: str, named: str
) -> None:
    first = asked(shell, same, "S")
    assert source.reached.wait(30)
    second = asked(shell, same, "S", "--wait", "60s")
    assert second.stderr is not None
    assert second.stderr.readline().startswith(f"waiting up to 60 s for {named}")
    source.gate.set()

    answers = [told(first), told(second)]

    assert answers[0] == answers[1]
    assert answers[0][0] == 0
    assert landed(shell) == (PAGES, PAGES)


def test_two_at_once_under_one_key_that_wait_land_it_once(shell: Shell, source: Source) -> None:
    source.gate.set()
    twins = [asked(shell, "--idempotency-key", "K", "--wait", "60s") for _ in range(2)]

    (code, runs), other = (told(twin) for twin in twins)

    assert (code, len(runs)) == (0, 1)
    assert other == (code, runs)
    assert landed(shell) == (PAGES, PAGES)


def test_a_wait_for_a_key_at_work_can_be_given_up(shell: Shell, source: Source) -> None:
    first = asked(shell, "--idempotency-key", "K")
    assert source.reached.wait(30)
    second = asked(shell, "--idempotency-key", "K", "--wait", "60s")
    assert second.stderr is not None
    assert second.stderr.readline().startswith("waiting up to")

    second.send_signal(signal.SIGINT)

    assert second.wait(30) == 130
    source.gate.set()
    assert told(first)[0] == 0
    assert landed(shell) == (PAGES, PAGES)
