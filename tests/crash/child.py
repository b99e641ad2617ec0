"""A process that forks children on demand, each a real process of its own with everything imported already.

It reads one JSON job a line from its standard input and answers, a JSON line each, `started`, `stopped` and `ended`
with the job's number. A job names one of the `jobs` functions, the signal point of `points`, and where to put what the
function returns. Started as `python -m tests.crash.child`.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.crash import jobs
from tests.crash.points import Points


def main() -> None:
    """Serve jobs until the input ends; what still runs then is killed."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    jobs.warm(Path(sys.argv[1]))
    children: dict[int, int] = {}
    pending = b""
    while True:
        ready, _, _ = select.select([0, readable], [], [])
        if readable in ready:
            os.read(readable, 4096)
            _report(children)
        if 0 in ready:
            received = os.read(0, 65536)
            if not received:
                break
            *lines, pending = (pending + received).split(b"\n")
            for line in lines:
                _start(json.loads(line), children)
    for pid in children:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _start(job: dict[str, Any], children: dict[int, int]) -> None:
    pid = os.fork()
    if pid == 0:
        _become(job)
    children[pid] = job["number"]
    _say(job["number"], event="started", pid=pid)


def _report(children: dict[int, int]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        if pid == 0:
            return
        if os.WIFSTOPPED(status):
            _say(children[pid], event="stopped")
        else:
            _say(children.pop(pid), event="ended", code=os.waitstatus_to_exitcode(status))


def _say(number: int, **facts: Any) -> None:
    os.write(1, json.dumps({"number": number, **facts}).encode() + b"\n")


def _become(job: dict[str, Any]) -> None:
    """Do the job in this child and leave with its exit code; never return."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)
    code = 70
    try:
        points = Points(Path(job["root"]) / ".contextful", at=job.get("at"), number=job.get("signal", signal.SIGKILL))
        if job.get("watched", True):
            points.watch()
        while time.monotonic_ns() < job.get("begin_ns", 0):
            pass
        begun = time.monotonic()
        result = getattr(jobs, job["do"])(job) | {"points": points.reached, "seconds": time.monotonic() - begun}
        # A test may have limited what this process can write; what it has to tell is not meant.
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        Path(job["result"]).write_text(json.dumps(result, default=str), encoding="utf-8")
        code = result["exit"]
    except BaseException:  # the last frame of the process: whatever it was is shown
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
