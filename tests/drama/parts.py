"""What the processes of a drama do: engines that charge and can die at any point, rivals, supervisors, commands.

Each part is a function of its job, a JSON object that names the project's folder, the environment and the clock's file.
Started as `python -m tests.drama.parts JOB` it is the engine below a supervisor.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engine import Schedule, start
from engine.cli import session
from engine.cli.main import main
from engine.errors import ContextfulError
from engine.profile import open_profile
from engine.serve.supervisor import Supervisor
from engine.serve.wakes import Wakes
from engine.sql import call
from tests.drama.clock import SceneClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine import Call, Engine

    Tell = Callable[..., None]
    Job = Mapping[str, Any]

ROOT: Final = Path(__file__).resolve().parents[2]
PLAN: Final = "charge"
RIVAL_PAUSE_S: Final = 0.15


def charges(job: Job, tell: Tell) -> int:
    """An engine that charges once: one step at a destination under the job's scope."""
    try:
        with _engine(job) as engine:
            tell(holder=engine.leases.holder, pid=os.getpid())
            tell(value=_charged(engine, job))
    except ContextfulError as refusal:
        tell(**_refused(refusal))
        return refusal.exit_code
    return 0


def rivals(job: Job, tell: Tell) -> int:
    """An engine that asks for the scope all the time; what refuses it is told, and once it is let in it charges."""
    refusals: Counter[str] = Counter()
    with _engine(job) as engine:
        while not Path(job["give_up"]).exists():
            try:
                value = _charged(engine, job)
            except ContextfulError as refusal:
                told = _refused(refusal)
                if not refusals[told["error"]]:
                    tell(refused=told["error"], **told)
                refusals[told["error"]] += 1
                time.sleep(RIVAL_PAUSE_S)
            else:
                tell(value=value, refusals=dict(refusals))
                return 0
    tell(refusals=dict(refusals))
    return 0


def supervises(job: Job, tell: Tell) -> int:
    """A supervisor above an engine that charges, which records the engine's exit once nothing of it is left."""
    clock = SceneClock(Path(job["clock"]))

    def record(holders: tuple[str, ...]) -> None:
        profile = open_profile(job["profile"], Path(job["state"]), clock=clock, environ=os.environ)
        try:
            profile.database.run(*(call("exit_holder", holder=holder) for holder in holders))
        finally:
            profile.close()
        tell(recorded=list(holders))

    with Wakes() as wakes:
        argv = [sys.executable, "-m", "tests.drama.parts", json.dumps(dict(job))]
        return Supervisor(wakes, record, lambda _: None).run(argv, environ=os.environ, stdout=job["voice"])


def reaps(job: Job, tell: Tell) -> int:
    """Record the exit of an engine whose process is known to be gone, as its supervisor does."""
    profile = open_profile(job["profile"], Path(job["state"]), clock=SceneClock(Path(job["clock"])), environ=os.environ)
    try:
        profile.database.run(call("exit_holder", holder=job["holder"]))
    finally:
        profile.close()
    tell(recorded=[job["holder"]])
    return 0


def commands(job: Job, tell: Tell) -> int:
    """A command of `contextful` in the job's folder, by the scene's clock where that is named."""
    if job["clock"]:
        session.clock.set(SceneClock(Path(job["clock"])))
    for stream, number in (("out", 1), ("err", 2)):
        os.dup2(os.open(job[stream], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    code = main(job["words"])
    sys.stdout.flush()
    sys.stderr.flush()
    tell(done=True)
    return code


def _engine(job: Job) -> Engine:
    return start(Path(job["root"]) / "contextful.toml", environ=os.environ, clock=SceneClock(Path(job["clock"])))


def _charged(engine: Engine, job: Job) -> Any:
    schedule = Schedule(attempts=job.get("attempts", 1), base_ms=20, jitter_ms=0)
    with engine.open(job["scope"], plan=PLAN, once=True) as x:
        value = x.step("charge", partial(_charge, job), destination=job["destination"], schedule=schedule)
        _point("recorded", job)
    return value


def _charge(job: Job, request: Call) -> Any:
    _point("before", job)
    answer = request.http.post(f"{job['urls'][job['destination']]}/{job['scope']}", json={"cents": 100}, timeout=60)
    _point("answered", job)
    return answer.raise_for_status().json()


def _point(name: str, job: Job) -> None:
    """Die or stop here, where the job says so."""
    if job.get("dies") == name:
        os.kill(os.getpid(), signal.SIGKILL)
    if job.get("stops") == name:
        os.kill(os.getpid(), signal.SIGSTOP)


def _refused(refusal: ContextfulError) -> dict[str, Any]:
    """What ended an attempt: the failure of the step where that is behind it."""
    behind = refusal.facts.get("failure", refusal)
    facts = {name: value for name, value in behind.facts.items() if isinstance(value, str | int)}
    return {"error": type(behind).__name__, "facts": facts, "exit": refusal.exit_code, "remedy": behind.remedy}


if __name__ == "__main__":
    played = json.loads(sys.argv[1])

    def _tell(**facts: Any) -> None:
        os.write(1, json.dumps({"number": played["number"], "event": "told", **facts}).encode() + b"\n")

    sys.exit(charges(played, _tell))
