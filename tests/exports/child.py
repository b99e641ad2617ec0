"""A process that forks exporters on demand, each a real one that can be killed at a named point.

It reads one JSON job a line and answers with JSON lines: `pid` as a child begins, then how it ended. A job names the
project's folder, the point `at` which the child kills itself, how far its clock is ahead, and whether the exits of
earlier engines are recorded first, as a process that reaps them does. Started as `python -m tests.exports.child`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

# What a run imports late is imported here, before any fork.
import httpx
import pyarrow.parquet  # noqa: F401

import engine.execution.transports  # noqa: F401
from engine.clock import SystemClock
from engine.dump import rows, tables
from engine.errors import ContextfulError
from engine.exports.run import ExportRun
from engine.project import Project
from engine.sql import call, statement
from tests.crash.points import Points
from tests.exports.publishing import Heard

if TYPE_CHECKING:
    from engine.profile import Profile

httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200))).close()


def main() -> None:
    """Serve jobs until the input ends."""
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                say(exported(job))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(0)
        _, ended = os.waitpid(pid, 0)
        if os.WIFSIGNALED(ended):
            say({"killed": os.WTERMSIG(ended)})


def exported(job: dict[str, Any]) -> dict[str, Any]:
    """Run the project's export and tell how it ended and which points it reached."""
    root = Path(job["root"])
    points = Points(root, at=job["at"], number=signal.SIGKILL)
    with Project.find(root / "contextful.toml", environ={}, clock=SystemClock(job["ahead_ms"])) as project:
        if job["reap"]:
            reap(project.profile)
        try:
            with project.engine() as engine:
                [export] = project.manifest.exports
                points.watch()
                say({"pid": os.getpid()})
                ended = ExportRun(engine, export, secrets={}, watcher=Heard()).run()
        except ContextfulError as refusal:
            return {"error": type(refusal).__name__, "facts": {n: str(v) for n, v in refusal.facts.items()}}
    return {"status": str(ended.run.status), "points": [each for each in points.reached if ours(each)]}


def reap(profile: Profile) -> None:
    """Record the exit of every engine: all of them are gone."""
    [holders] = [table for table in tables(profile.tables) if table.name == "holders"]
    for holder, *_ in list(rows(profile.database, holders)):
        profile.database.run(call("exit_holder", holder=holder))


def ours(point: str) -> bool:
    """Whether the point is a batch of statements."""
    when, what, _ = point.split(" ", 2)
    try:
        statement(what.split("+")[0])
    except KeyError:
        return False
    return when in {"before", "after"}


def say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
