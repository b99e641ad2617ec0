"""What children do: compose the engine as its users do, run it, and tell how it went."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

# What a run imports late is imported here, before any fork, so that children do not pay for it.
import pyarrow.compute
import pyarrow.parquet  # noqa: F401

from engine.clock import Chance, SystemClock
from engine.errors import ContextfulError
from engine.history import History
from engine.owners import Owners
from engine.pipeline.checkpoints import Limits
from engine.pipeline.runner import Request, fire
from engine.pipeline.sources import open_source
from engine.profile import OWN
from engine.project import PROFILE, Project
from engine.runs import Runs
from engine.sql import call
from engine.storage import is_empty

if TYPE_CHECKING:
    from engine.execution.call import Call
    from engine.pipeline.walk import Landing
    from engine.profile import Profile
    from engine.runs import RunRow

Job = dict[str, Any]

WARMING = """
[project]
name = "warm"
site_id = "here"
[[pipeline]]
id = "p"
[pipeline.source]
kind = "http"
url = "http://127.0.0.1:9/"
records = "items"
[[pipeline.table]]
name = "items"
"""


class Unwatched:
    """A watcher of runs that looks away."""

    def opened(self, run: RunRow) -> None:
        """Nothing."""

    def landed(self, run: RunRow, landing: Landing) -> None:
        """Nothing."""

    def closed(self, run: RunRow) -> None:
        """Nothing."""


class JumpingClock(SystemClock):
    """The machine's clock, each reading moved by the next of `jumps`, the last of them for good."""

    def __init__(self, offset_ms: int, *, jumps: list[int]) -> None:
        super().__init__(offset_ms)
        self._jumps = list(jumps)

    def now(self) -> int:
        """The instant; the jump of this reading is used up."""
        return super().now() + (self._jumps.pop(0) if len(self._jumps) > 1 else self._jumps[0])


class SleeperClock(SystemClock):
    """The machine's clock, `slept_ms` further once the process was stopped and continued."""

    def __init__(self, offset_ms: int, *, slept_ms: int) -> None:
        super().__init__(offset_ms)
        self._slept = 0
        signal.signal(signal.SIGCONT, lambda *_: setattr(self, "_slept", slept_ms))

    def now(self) -> int:
        """The instant, as everybody else has it."""
        return super().now() + self._slept


def warm(folder: Path) -> None:
    """Import what a run imports late, and load a manifest and a client once: the children are spared it."""
    (folder / "contextful.toml").write_text(WARMING, encoding="utf-8")
    table = Project.find(folder / "contextful.toml", environ={}).manifest.pipelines[0].tables[0]
    open_source(table)
    for module in OWN.values():
        import_module(module)
    for profile in entry_points(group="contextful.profiles"):
        profile.load()
    httpx.Client().close()


def project_of(job: Job) -> Project:
    """The project a job is about, its clock where the job says."""
    offset = job.get("offset_ms", 0)
    clock = SystemClock(offset)
    if "jumps" in job:
        clock = JumpingClock(offset, jumps=job["jumps"])
    elif "slept_ms" in job:
        clock = SleeperClock(offset, slept_ms=job["slept_ms"])
    environ = {PROFILE: job["profile"], **job.get("environ", {})}
    return Project.find(Path(job["root"]) / "contextful.toml", environ=environ, clock=clock)


def run(job: Job) -> dict[str, Any]:
    """`contextful pipeline run`: fire the manifest's first pipeline."""
    with project_of(job) as project:
        try:
            engine = project.engine(limits=Limits(*job["limits"]) if "limits" in job else None)
            pipeline = project.manifest.pipelines[0]
            request = Request(pipeline, pipeline.tables, run_id=job.get("run_id"), idempotency_key=job.get("key"))
            outcome = fire(engine, request, secrets=project.secrets(pipeline), watcher=Unwatched())
            engine.leases.exit()
        except ContextfulError as refusal:
            return _refused(refusal)
        runs = [row.projection() for row in outcome.runs]
        refusals = [_told(refusal) for refusal in outcome.refusals]
        return {"exit": outcome.exit_code, "fire": outcome.state, "runs": runs, "refusals": refusals}


def steps(job: Job) -> dict[str, Any]:
    """A host execution: one step for each of `labels`, its effect a POST to `url`, if any.

    The effect of the label `within` sends `signal` to the process once it has its answer.
    """

    def effect(asked: Call) -> Any:
        if job["url"] is None:
            return asked.key.step
        answer = asked.http.post(job["url"], json={"step": asked.key.step, "key": asked.idempotency_key}).json()
        if asked.key.step == job.get("within"):
            os.kill(os.getpid(), job["signal"])
            time.sleep(0.02)  # another thread may be the one that takes the signal
        return answer

    with project_of(job) as project:
        try:
            engine = project.engine()
            with engine.open(job["scope"], plan="v1", once=job.get("once", False)) as execution:
                values = [execution.step(label, effect) for label in job["labels"]]
                resumed = execution.resumed
            engine.leases.exit()
        except ContextfulError as refusal:
            return _refused(refusal)
        return {"exit": 0, "values": values, "resumed": resumed, "refusals": []}


def initialize(job: Job) -> dict[str, Any]:
    """`contextful storage initialize`; tell what the store says of itself then."""
    with project_of(job) as project:
        project.initialize()
        return {"exit": 0, "meta": dict(project.profile.database.run(call("read_meta"))[0])}


def writes(job: Job) -> dict[str, Any]:
    """`count` batches of a fire of our own and one that every writer wants; tell whose stands under the latter."""
    who = job["who"]
    standing: list[str] = []
    with project_of(job) as project:
        database = project.profile.database
        for number in range(job["count"]):
            _, _, rows = database.run(
                call("request_fire", fire_id=f"own-{who}-{number}", pipeline_id=who),
                call("request_fire", fire_id=f"shared-{number:04}", pipeline_id=who),
                call("read_fire", fire_id=f"shared-{number:04}"),
            )
            standing.append(rows[0][1])
    return {"exit": 0, "standing": standing}


def look(job: Job) -> dict[str, Any]:
    """What the stores hold, read through the ports; nothing is changed."""
    with project_of(job) as project:
        profile = project.profile
        if is_empty(profile.database):
            return {"exit": 0, "owners": [], "runs": [], "cursor": [], "recorded": {}, "entries": 0, "history": {},
                    "listed": []}  # fmt: skip
        owners = Owners(profile.database, profile.journal, Chance()).all()
        runs = Runs(profile.database).since(0, ceiling=1000)
        executions = {run.execution_id for run in runs if run.execution_id} | {owner.execution_id for owner in owners}
        return {
            "exit": 0,
            "owners": [{"scope": o.scope, "attempt": o.attempt, "execution_id": o.execution_id} for o in owners],
            "runs": [run.projection() for run in runs],
            "cursor": profile.database.run(call("read_cursor", table_name="items"))[0],
            "history": {row.run_id: row.status for row in History(profile.objects).rows()},
            "listed": list(profile.objects.list("")),
            **_journal(profile, executions),
        }


def resume(job: Job) -> dict[str, Any]:
    """Look, run, and look again: what a new process finds, does and leaves."""
    found, ran = look(job), run(job)
    return {"exit": ran["exit"], "found": found, "ran": ran, "left": look(job)}


def _journal(profile: Profile, executions: set[str]) -> dict[str, Any]:
    entries = [entry for execution in executions for entry in profile.journal.entries(execution)]
    recorded = {e.key.step: hashlib.sha256(profile.journal.value(e)).hexdigest() for e in entries if e.recorded}
    return {"recorded": recorded, "entries": len(entries)}


def _refused(refusal: ContextfulError) -> dict[str, Any]:
    return {"exit": refusal.exit_code, "runs": [], "values": [], "refusals": [_told(refusal)]}


def _told(refusal: ContextfulError) -> dict[str, str]:
    return {"name": type(refusal).__name__, "message": str(refusal)}
