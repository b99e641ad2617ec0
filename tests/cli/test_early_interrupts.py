"""Ctrl-C in the first half second of a command, while it still imports, in a real process at many instants."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

import pytest

from tests.cli.conftest import SCRIPT
from tests.scale import scale

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

STEP_MS: Final = scale(short=30, full=5)
LAST_MS: Final = 600
COMMANDS: Final = (("pipeline", "validate"), ("--help",), ("read",), ("pipeline", "run", "orders"))

PROGRAM: Final = """
import os, signal, sys
hears = signal.signal

def told(number, handler):
    standing = hears(number, handler)
    if number != signal.SIGINT:
        return standing
    loaded = [name for name in sys.modules if name.partition(".")[0] in {"engine", "typing", "dataclasses"}]
    os.write(int(os.environ["MARK"]), (",".join(sorted(loaded)) + "\\n").encode())
    signal.signal = hears
    return standing

signal.signal = told
path = os.environ["SCRIPT"]
exec(compile(open(path, encoding="utf-8").read(), path, "exec"))
"""
"""The installed script, which marks when it first hears Ctrl-C and what of weight is loaded by then.

Whatever is interrupted before, Python's own start and the first lines of the script, answers as Python does.
"""


def interrupted(shell: Shell, *arguments: str, after_ms: int) -> tuple[str, int, str, str]:
    """What was loaded when the script began to hear signals, and how it ended by one that came `after_ms` later."""
    reader, writer = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=shell.folder, pass_fds=(writer,), text=True,
        env={**os.environ, "MARK": str(writer), "SCRIPT": str(SCRIPT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        os.close(writer)
        with os.fdopen(reader) as mark:
            loaded = mark.readline().strip()
        time.sleep(after_ms / 1000)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    return loaded, process.returncode, out, err


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_interrupt_at_any_instant_of_the_start_shows_no_traceback(shell: Shell, command: tuple[str, ...]) -> None:
    shell.orders()
    codes = set()

    for instant in range(0, LAST_MS, STEP_MS):
        _, code, _, err = interrupted(shell, *command, after_ms=instant)

        assert "Traceback" not in err, f"at {instant} ms: {err}"
        assert code in {130, 0, -signal.SIGINT}, f"at {instant} ms: {err}"  # or it had ended, or was Python's to end
        if code == 130:
            assert err.splitlines()[-1].startswith("Canceled: interrupted"), f"at {instant} ms: {err}"
        codes.add(code)

    assert 130 in codes


def test_an_interrupt_of_the_imports_ends_the_command_as_any_does(shell: Shell) -> None:
    shell.orders()

    loaded, code, out, err = interrupted(shell, "pipeline", "validate", "--json", after_ms=0)

    assert loaded == "engine,engine.cli,engine.cli.__main__"
    assert code == 130
    assert err == "Canceled: interrupted; what was recorded stays: the same command goes on from there\n"
    assert out.startswith('{"error": {"name": "Canceled"')


def test_an_interrupt_that_a_library_cannot_raise_is_heard_all_the_same() -> None:
    program = (
        "import signal, sys, time\n"
        "import engine.cli.__main__ as entry\n"
        "import engine.cli.main\n"
        "class Deaf:\n"
        "    def __del__(self):\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "def command():\n"
        "    Deaf()\n"
        "    time.sleep(30)\n"
        "engine.cli.main.main = command\n"
        "sys.exit(entry.main())\n"
    )

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False)

    assert (ended.returncode, ended.stderr.partition(":")[0]) == (130, "Canceled")
