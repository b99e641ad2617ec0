"""A process that forks the parts of a drama on demand, each a real process with everything imported already.

It reads a JSON job a line and writes what becomes of each: `started`, `told`, `stopped`, `ended`. What is still there
when its input ends is killed. Started as `python -m tests.drama.troupe`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import traceback
from contextlib import suppress
from typing import Any

# What a part imports late is imported here, before any fork.
import cryptography.hazmat.primitives.asymmetric.ed25519  # noqa: F401
import httpx
import pyarrow.parquet  # noqa: F401

import d1.profile  # noqa: F401
import engine.cli.export
import engine.cli.exporting
import engine.cli.guards
import engine.cli.run_history
import engine.cli.status
import engine.execution.transports
import engine.operator.places
import engine.status  # noqa: F401
from tests.drama import parts

VOICE = os.dup(1)

httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200))).close()


def main() -> None:
    """Fork parts until the input ends."""
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
                _start(json.loads(line), playing)
    for pid in playing:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def say(number: int, event: str, **facts: Any) -> None:
    """Write one line; lines of several processes do not mix."""
    os.write(VOICE, json.dumps({"number": number, "event": event, **facts}).encode() + b"\n")


def _start(job: dict[str, Any], playing: dict[int, int]) -> None:
    pid = os.fork()
    if pid == 0:
        _become(job)
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


def _become(job: dict[str, Any]) -> None:
    """Play the part in this child and leave with its exit code; never return."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)
    code = 70
    try:
        os.environ.clear()
        os.environ.update(job["environ"])
        os.chdir(job["folder"])

        def tell(**facts: Any) -> None:
            say(job["number"], "told", **facts)

        code = getattr(parts, job["part"])(job | {"voice": VOICE}, tell)
    except BaseException:  # the last frame of the process: whatever it was is shown
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
