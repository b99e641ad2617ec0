"""What the platform tells of processes: who descends from whom, and that orphans come to this one."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import signal

_PR_SET_CHILD_SUBREAPER: Final = 36


@dataclass(frozen=True, slots=True)
class Process:
    """A process as the machine lists it, one that has ended and was not collected too."""

    pid: int
    parent: int
    group: int


def adopt_orphans() -> bool:
    """Have every descendant that loses its parent become a child of this process; tell whether the platform does."""
    if sys.platform != "linux":
        return False
    try:
        done: int = ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        return False
    return done == 0


def processes() -> list[Process]:
    """Every process that the machine lists; none where it lists none."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just gone
            # The command's name, in parentheses, may hold anything.
            _, parent, group, *_ = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            found.append(Process(int(path.parent.name), int(parent), int(group)))
    return found


def send(pid: int, number: signal.Signals) -> None:
    """Signal one process, if it is still there and may be signalled."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def send_group(group: int, number: signal.Signals) -> None:
    """Signal a whole group, if anything of it is still there and may be signalled."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def group_stands(group: int) -> bool:
    """Whether anything of a group is still there."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
