"""What a run says on the command line: what did not land, what its source printed, how far it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine.cli.live import Live
from engine.cli.watching import Lines
from engine.errors import Transient
from engine.pipeline.recording import PullMeta
from engine.pipeline.walk import Landing
from engine.runs import RunRow
from engine.shapes import RunStatus
from tests.cli.conftest import ORDERS

if TYPE_CHECKING:
    from tests.cli.conftest import Shell


def test_what_does_not_land_is_said(shell: Shell) -> None:
    shell.orders()
    shell("pipeline", "run", "orders")

    ended = shell("pipeline", "run", "orders")

    assert "1 row landed" in ended.out
    assert "1 row below the position, not admitted" in ended.out


def test_only_a_run_that_recorded_something_promises_a_resume(shell: Shell, tickets: None) -> None:
    shell.write("broken", "")
    resumable = shell("pipeline", "run", "orders")
    shell.orders({"id": 1, "at": None})
    shell.write("contextful.toml", ORDERS.replace('name = "orders"', 'name = "fresh"'))

    afresh = shell("pipeline", "run", "orders")

    assert "next: contextful pipeline run orders --table orders asks only for what is not recorded" in resumable.err
    assert (afresh.code, "next:" in afresh.err) == (1, False)


TICKETS = """\
from pathlib import Path

from engine.errors import Permanent
from engine.shapes import Pull


def tickets(ask):
    if ask.position is None:
        yield Pull(rows=[{"id": 1}], position=1, more=True, skipped=2)
    if Path("broken").exists():
        raise Permanent("the second page is broken")
    yield Pull(rows=[{"id": 2}], position=2, skipped=1)
"""


@pytest.fixture
def tickets(shell: Shell) -> None:
    """A pipeline whose source declines three inputs, two of them on its first page."""
    module = f"tickets_{shell.folder.parent.name}"
    shell.write(f"{module}.py", TICKETS)
    shell.write(
        "contextful.toml",
        ORDERS.replace('kind = "file", path = "orders.jsonl"', f'kind = "python", entry = "{module}:tickets"')
        .replace('incremental = "at"\n', ""),
    )  # fmt: skip


@pytest.mark.clause("run.record.skipped-count")
def test_the_inputs_a_source_declines_are_summed_and_said(shell: Shell, tickets: None) -> None:
    ended = shell("pipeline", "run", "orders", "--run-id", "r")

    assert "3 inputs skipped" in ended.out
    assert (shell.json("run", "show", "r")["skipped"], shell.json("run", "show", "r")["rows"]) == (3, 2)


@pytest.mark.parametrize("verb", ["preview", "run"])
def test_what_a_source_prints_stays_out_of_the_document(shell: Shell, tickets: None, verb: str) -> None:
    module = f"tickets_{shell.folder.parent.name}.py"
    shell.write(module, TICKETS.replace("(ask):\n", "(ask):\n    print('a word from the source')\n"))

    ended = shell("pipeline", verb, "orders", "--json")

    assert ended.document
    assert "a word from the source" in ended.err


@pytest.mark.clause("run.record.skipped-count")
def test_replayed_pulls_count_what_they_skipped_too(shell: Shell, tickets: None) -> None:
    shell.write("broken", "")
    (failed,) = shell("pipeline", "run", "orders", "--json").document["runs"]
    (shell.folder / "broken").unlink()

    (resumed,) = shell.json("pipeline", "run", "orders")["runs"]

    assert (failed["skipped"], failed["rows"], failed["bytes"]) == (2, 0, 0)
    assert (resumed["replayed"], resumed["skipped"], resumed["rows"]) == (1, 3, 2)


def test_a_defect_is_named_as_one_and_shows_no_traceback(shell: Shell) -> None:
    shell.orders()
    shell.monkeypatch.setattr("engine.cli.session.pipeline", lambda *_: 1 / 0)

    ended = shell("pipeline", "run", "orders", "--json")

    assert ended.code == 1
    assert ended.error["name"] == "InternalError"
    assert "a defect of contextful" in ended.err
    assert "Traceback" not in ended.err


def test_a_defect_shows_where_it_is_on_request(shell: Shell) -> None:
    shell.orders()
    shell.set("CONTEXTFUL_DEBUG", "1")
    shell.monkeypatch.setattr("engine.cli.session.pipeline", lambda *_: 1 / 0)

    assert "Traceback" in shell("pipeline", "run", "orders").err


def test_progress_is_told_in_lines_at_most_every_two_seconds(shell: Shell) -> None:
    shell.monkeypatch.setattr("time.monotonic", iter([tick / 2 for tick in range(10_000)]).__next__)
    lines = Lines()
    run = RunRow("r", RunStatus.RUNNING, 0, table="orders")
    landing = Landing(0, None, 0, PullMeta(), replayed=False)
    shell.capture.readouterr()

    lines.opened(run)
    for page in range(20):
        lines.landed(replace(run, batches=page + 1, rows=50 * (page + 1)), landing)
    lines.retrying("pull:20", 1, Transient("no answer"), 400)
    lines.closed(replace(run, batches=20, rows=1000, status=RunStatus.SUCCESS))

    said = shell.capture.readouterr().err.splitlines()
    assert said[0] == "orders: run r opened"
    assert 2 < len(said) < 12, said
    assert said[-1].startswith("orders: run r success: 20 pages, 1,000 rows, 0 B")
    assert said[-1].endswith("1 retry")


def test_a_terminal_shows_a_line_that_moves(shell: Shell) -> None:
    run = RunRow("r", RunStatus.RUNNING, 0, table="orders")
    shell.capture.readouterr()

    with Live() as live:
        live.opened(run)
        live.retrying("pull:0", 1, Transient("no answer"), 400)
        live.landed(replace(run, batches=3, rows=150), Landing(0, None, 0, PullMeta(), replayed=False))
        live.closed(replace(run, batches=3, rows=150, status=RunStatus.SUCCESS))

    assert "3 pages, 150 rows" in " ".join(shell.capture.readouterr().err.split())
