"""What becomes of a command whose reader is gone, whose answer has no room, or whose words are no text."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

from tests.cli.conftest import SCRIPT

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

FULL = Path("/dev/full")
PATIENT = """\
import time
from pathlib import Path

import engine


def orders(ask):
    while not Path("closed").exists():
        time.sleep(0.01)
    yield engine.Pull(rows=[{"id": 1, "at": "2026-01-01T00:00:00Z"}])
"""
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no device here is always full")


def ended(shell: Shell, *arguments: str, stdout: int | IO[str], stderr: int | IO[str]) -> tuple[int, str, str]:
    """Run the installed script with streams of the test's choice."""
    process = subprocess.run(
        [SCRIPT, *arguments], cwd=shell.folder, stdout=stdout, stderr=stderr, text=True, timeout=60, check=False
    )
    return process.returncode, process.stdout or "", process.stderr or ""


def unread() -> IO[str]:
    """The writing end of a pipe whose reader is gone."""
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "w")


def test_a_run_goes_on_where_nobody_reads_how_it_gets_on(shell: Shell) -> None:
    shell.orders()

    with unread() as gone:
        code, out, _ = ended(shell, "pipeline", "run", "orders", stdout=subprocess.PIPE, stderr=gone)

    assert (code, "2 rows landed" in out) == (0, True)
    assert shell.json("status") == {"pending": []}


def test_a_run_goes_on_where_its_terminal_is_closed(shell: Shell) -> None:
    shell.orders()
    shell.write("contextful.toml", (shell.folder / "contextful.toml").read_text().replace(
        'kind = "file", path = "orders.jsonl"', 'kind = "python", entry = "patient:orders"'))  # fmt: skip
    shell.write("patient.py", PATIENT)
    terminal, stderr = pty.openpty()
    process = subprocess.Popen(
        [SCRIPT, "pipeline", "run", "orders"], cwd=shell.folder, stdout=subprocess.PIPE, stderr=stderr, text=True
    )
    os.close(stderr)

    assert os.read(terminal, 1)
    os.close(terminal)
    shell.write("closed", "")
    out, _ = process.communicate(timeout=60)

    assert (process.returncode, "1 row landed" in out) == (0, True)


def test_a_failure_stays_one_where_nobody_reads_the_answer(shell: Shell) -> None:
    shell.orders()
    shell.write("orders.jsonl", "no json\n")

    with unread() as gone:
        code, _, err = ended(shell, "pipeline", "run", "orders", stdout=gone, stderr=subprocess.PIPE)

    assert code == 1
    assert "orders.jsonl line 1" in err


@needs_full
@pytest.mark.parametrize(
    "arguments", [["--help"], ["status"], ["read"], ["read", "--format", "csv"], ["read", "--json"]]
)
def test_an_answer_without_room_is_named_and_no_defect(shell: Shell, arguments: list[str]) -> None:
    shell.orders()
    assert shell("pipeline", "run", "orders").code == 0

    with FULL.open("w") as full:
        code, _, err = ended(shell, *arguments, stdout=full, stderr=subprocess.PIPE)

    assert code == 2
    assert err.startswith("OutputUnwritable: standard output cannot be written: No space left on device; ")
    assert err.count("\n") == 1


@needs_full
def test_a_run_goes_on_where_there_is_no_room_to_say_so(shell: Shell) -> None:
    shell.orders()

    with FULL.open("w") as full:
        code, out, _ = ended(shell, "pipeline", "run", "orders", stdout=subprocess.PIPE, stderr=full)

    assert (code, "2 rows landed" in out) == (0, True)


def test_closed_streams_are_no_defect(shell: Shell) -> None:
    shell.orders()

    code = subprocess.run(
        ["sh", "-c", f"exec '{SCRIPT}' pipeline run orders >&- 2>&-"], cwd=shell.folder, timeout=60, check=False
    ).returncode

    assert code == 0
    assert shell.json("read", "SELECT count(*) AS n FROM orders")["rows"] == [[2]]


def test_words_that_are_no_text_are_named(shell: Shell) -> None:
    shell.orders()

    given = shell("read", "SELECT '\udcff'")
    shell.set("CONTEXTFUL_RUN_PIPELINE", "\udcff")
    standing = shell("run", "list")

    assert given.code == standing.code == 2
    assert given.err.startswith(r"UsageError: argument SQL: ")
    assert r"'\udcff' holds bytes that are no text in utf-8, the shell's encoding" in standing.err
