"""Forks the children of the crash tests, see `forks`.

A job names one of the `jobs` functions, the signal point of `points`, and where to put what the function returns.
Started as `python -m tests.crash.child`.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.crash import jobs
from tests.crash.points import Points
from tests.forks import serve

if TYPE_CHECKING:
    from tests.forks import Job


def does(job: Job) -> int:
    """Do the job in this process and return its exit code."""
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
    return int(result["exit"])


if __name__ == "__main__":
    jobs.warm(Path(sys.argv[1]))
    serve(does)
