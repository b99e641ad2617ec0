"""What a new user does in an empty folder, with the installed script."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Shell


def test_two_commands_lead_from_an_empty_folder_to_rows(shell: Shell) -> None:
    assert shell.script("init", "--example").code == 0

    ran = shell.script("pipeline", "run", "orders")
    read = shell.script("read", "SELECT count(*) AS n FROM orders", "--format", "csv")

    assert ran.code == 0
    assert "26 rows landed" in ran.out
    assert (read.code, read.out) == (0, "n\n24\n")  # two orders stand twice and read as their latest state


def test_an_empty_folder_is_answered_with_how_to_begin(shell: Shell) -> None:
    ended = shell.script("pipeline", "list")

    assert ended.code == 2
    assert ended.err.startswith("ManifestInvalid: ")
    assert "contextful init" in ended.err
    assert "Traceback" not in ended.err


def test_a_second_init_overwrites_nothing(shell: Shell) -> None:
    shell.script("init")

    ended = shell.script("init")

    assert ended.code == 2
    assert "InitRefused: " in ended.err


def test_a_reader_that_has_seen_enough_is_no_error(shell: Shell) -> None:
    shell.orders(*({"id": n, "at": "2026-01-01T00:00:00Z"} for n in range(9000)))
    assert shell.script("pipeline", "run", "orders").code == 0
    process = shell.start("read", "SELECT * FROM orders", "--format", "csv")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()

    assert process.wait(30) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""


def test_help_loads_nothing_of_what_runs_need(shell: Shell) -> None:
    text = (
        "import sys\n"
        "from engine.cli.main import main\n"
        "main(['--help'])\n"
        "heavy = {'pyarrow', 'duckdb', 'httpx', 'pydantic', 'rich', 'sqlite3'}\n"
        "sys.exit(str(heavy & {name for name, module in sys.modules.items() if module}))\n"
    )

    ended = subprocess.run([sys.executable, "-c", text], cwd=shell.folder, capture_output=True, text=True, check=False)

    assert ended.stderr == "set()\n"


def test_a_run_that_finds_nothing_loads_neither_reader_nor_terminal_kit(shell: Shell) -> None:
    shell.orders()
    text = (
        "import sys\n"
        "from engine.cli.main import main\n"
        "main(['pipeline', 'run', 'orders', '--json'])\n"
        "sys.exit(str({'duckdb', 'rich', 'click'} & {name for name, module in sys.modules.items() if module}))\n"
    )

    ended = subprocess.run([sys.executable, "-c", text], cwd=shell.folder, capture_output=True, text=True, check=False)

    assert ended.stderr.splitlines()[-1] == "set()"
