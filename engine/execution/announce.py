"""Telling the serve process above this one which holders live here: it alone may say that they are gone.

serve ──CONTEXTFUL_HOLDERS──▶ engine ──▶ whatever it starts        The address of a pipe is handed down.
  ▲                             │
  └───────── holder ◀───────────┘                                  Each engine names its holder, and works.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import Final

HOLDERS: Final = "CONTEXTFUL_HOLDERS"
"""The address of the pipe that serve reads, in the environment of its engine and of whatever that one starts.

A path and not a descriptor: programs close descriptors on the way to their children, and a number that was not kept
open stands for the next file that is opened, perhaps the store's. It is read here and not at the composition root: it
says where this process stands, whatever settings its engines are given.
"""

_PARENT, _STARTED = 1, 19
"""Where a process's parent and start are among what follows its name in `/proc/PID/stat`."""

_WALKS: Final = 3

_log = logging.getLogger("contextful")


def address(path: Path, *, adopting: bool) -> str:
    """What `HOLDERS` is for the children of this process; `adopting` tells that it ends all that descends from it."""
    facts = _facts(os.getpid()) if adopting else None
    return f"{os.getpid()}:{facts[_STARTED] if facts else '-'}:{path}"


def announce(holder: str) -> None:
    """Name `holder` to the serve process, where there is one; called before its row is registered.

    A holder that serve never hears of is safe, not lost: if it dies, its guards stay for the operator. So a pipe that
    nobody reads any more is warned of and no failure (run.callback-guard.container-stop).
    """
    where = os.environ.get(HOLDERS)
    if not where:
        return
    try:
        _tell(where, f"{holder}\n".encode())
    except (OSError, ValueError) as failure:
        _log.warning(
            "no serve process hears of the holder %s (%s): if this process dies, its guards wait for an operator",
            holder,
            failure,
        )


def _tell(where: str, line: bytes) -> None:
    pid, started, path = where.split(":", 2)
    if not _below(int(pid), started):
        raise ValueError("this process is not one that it ends")
    # Without a reader the opening fails instead of waiting for one; so short a line is written whole or not at all.
    pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISFIFO(os.fstat(pipe).st_mode):
            raise ValueError(f"{path} is no pipe")
        os.write(pipe, line)
    finally:
        os.close(pipe)


def _below(serve: int, started: str) -> bool:
    """Whether the process `serve` that started at `started` ends this one: its child, or below it where it adopts.

    The variable alone proves nothing: a job scheduler or a terminal server hands it to processes of its own.
    """
    if started == "-":
        return os.getppid() == serve
    # A parent that ends during a walk leaves its child to serve: then the next walk is shorter.
    return any(_reached(serve, started) for _ in range(_WALKS))


def _reached(serve: int, started: str) -> bool:
    pid = os.getpid()
    while facts := _facts(pid):
        if pid == serve:
            return facts[_STARTED] == started
        pid = int(facts[_PARENT])
    return False


def _facts(pid: int) -> list[str] | None:
    """What the machine tells of a process; None where it tells nothing."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()  # its name, in parentheses, may hold anything
