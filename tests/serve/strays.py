"""Processes that an engine starts and leaves behind. They know nothing of engines, and so they start at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn


def stray(name: str, root: str) -> list[str]:
    """The command line of a program of this module."""
    return [sys.executable, "-m", "tests.serve.strays", name, root]


def stubborn(root: str) -> NoReturn:
    """Take note of TERM, and go on."""
    signal.signal(signal.SIGTERM, lambda *_: note(root, "stubborn-asked"))
    note(root, "stubborn")
    for_ever()


def fugitive(root: str) -> NoReturn:
    """Flee, and go on deaf to TERM."""
    flee()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(root, "fugitive")
    for_ever()


def flee() -> None:
    """Leave the session as a daemon does."""
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)


def elder(root: str) -> NoReturn:
    """Ignore TERM, with a child in a session of its own."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(stray("younger", root), start_new_session=True)
    note(root, "elder")
    for_ever(child)


def younger(root: str) -> NoReturn:
    """Ignore TERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(root, "younger")
    for_ever()


def note(root: str, name: str) -> None:
    """Leave word that this process has come so far."""
    notes = Path(root) / "notes"
    notes.mkdir(parents=True, exist_ok=True)
    fresh = notes / f".{name}"
    fresh.write_text(str(os.getpid()))
    fresh.rename(notes / name)


def await_note(root: str, name: str) -> int:
    """The process that left the word `name`."""
    path, until = Path(root) / "notes" / name, time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < until, f"nobody noted {name}"
        time.sleep(0.01)
    return int(path.read_text())


def running(root: str) -> list[str]:
    """The words whose process is still there, one that has ended and was not collected too."""
    notes = Path(root) / "notes"
    return sorted(path.name for path in notes.glob("[a-z]*") if alive(int(path.read_text())))


def alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def for_ever(*_kept: object) -> NoReturn:
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]](*sys.argv[2:]))
