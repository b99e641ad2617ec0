"""Forks processes on demand, each a real process of its own with everything imported already.

It reads one JSON job a line from its standard input and answers, a JSON line each, `started`, `stopped` and `ended`
with the job's number. What still runs when the input ends is killed. `forked` is the test's side of it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

Job = dict[str, Any]

VOICE: Final = os.dup(1)


def serve(play: Callable[[Job], int]) -> None:
    """Fork a process for each job until the input ends; it leaves with the exit code that `play` returns in it."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    playing: dict[int, int] = {}
    pending = b""
    while True:
        ready, _, _ = select.select([0, readable], [], [])
        if readable in ready:
            os.read(readable, 4096)
            _report(playing)
        if 0 in ready:
            received = os.read(0, 65536)
            if not received:
                break
            *lines, pending = (pending + received).split(b"\n")
            for line in lines:
                _start(json.loads(line), playing, play)
    for pid in playing:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def say(number: int, event: str, **facts: Any) -> None:
    """Write one line; lines of several processes do not mix."""
    os.write(VOICE, json.dumps({"number": number, "event": event, **facts}).encode() + b"\n")


def _start(job: Job, playing: dict[int, int], play: Callable[[Job], int]) -> None:
    pid = os.fork()
    if pid == 0:
        _become(job, play)
    playing[pid] = job["number"]
    say(job["number"], "started", pid=pid)


def _report(playing: dict[int, int]) -> None:
    while playing:
        pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return
        if os.WIFSTOPPED(status):
            say(playing[pid], "stopped")
        else:
            say(playing.pop(pid), "ended", code=os.waitstatus_to_exitcode(status))


def _become(job: Job, play: Callable[[Job], int]) -> None:
    """Play the job in this process and leave with its exit code; never return."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)
    code = 70
    try:
        code = play(job)
    except BaseException:  # the last frame of the process: whatever it was is shown
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
