"""Telling the serve process above this one which holders live here: it alone may say that they are gone."""

from __future__ import annotations

import logging
import os
import stat
from typing import Final

HOLDERS: Final = "CONTEXTFUL_HOLDERS"
"""The path of the pipe that serve reads, in the environment of its engine and of whatever that one starts.

A path and not a descriptor: programs close descriptors on the way to their children, and a number that was not kept
open stands for the next file that is opened, perhaps the store's. It is read here and not at the composition root: it
says where this process stands, whatever settings its engines are given.
"""

_log = logging.getLogger("contextful")


def announce(holder: str) -> None:
    """Name `holder` to the serve process, where there is one; called before its row is registered.

    A holder that serve never hears of is safe, not lost: if it dies, its guards stay for the operator. So a pipe that
    nobody reads any more is warned of and no failure (run.callback-guard.container-stop).
    """
    path = os.environ.get(HOLDERS)
    if not path:
        return
    try:
        _write(path, f"{holder}\n".encode())
    except OSError as failure:
        _log.warning(
            "no serve process hears of the holder %s (%s): if this process dies, its guards wait for an operator",
            holder,
            failure.strerror or failure,
        )


def _write(path: str, line: bytes) -> None:
    # Without a reader the opening fails instead of waiting for one; so short a line is written whole or not at all.
    pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISFIFO(os.fstat(pipe).st_mode):
            raise OSError(f"{path} is no pipe")
        os.write(pipe, line)
    finally:
        os.close(pipe)
