"""What the tests of serve run as processes: a supervisor, and engines that end in every way there is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from engine.clock import SystemClock
from engine.profile import open_profile
from engine.serve.supervisor import Supervisor
from engine.serve.wakes import Wakes
from engine.sql import call
from tests.children import opened
from tests.serve.strays import await_note, flee, for_ever, note, running, stray

ROOT = Path(__file__).parents[2]


def command(name: str, *arguments: str) -> list[str]:
    """The command line of a program of this module."""
    return [sys.executable, "-m", "tests.serve.programs", name, *arguments]


def supervises(profile: str, root: str, grace_s: str, program: str, *arguments: str) -> int:
    """Run a program of this module, telling line by line what is said and what still ran when exits were recorded."""

    def record(holders: tuple[str, ...]) -> None:
        tell(recording=holders, running=running(root), at=SystemClock().now())
        store = open_profile(profile, Path(root), clock=SystemClock(), environ=os.environ)
        try:
            store.database.run(*(call("exit_holder", holder=holder) for holder in holders))
        finally:
            store.close()

    with Wakes() as wakes:
        supervisor = Supervisor(wakes, record, lambda line: tell(said=line), kill_after_s=float(grace_s))
        return supervisor.run(command(program, profile, root, *arguments), environ=os.environ)


def waits(profile: str, root: str, name: str = "engine") -> NoReturn:
    """An engine at work until it is killed."""
    held = opened(profile, root).open(name, plan="plan-a")
    note(root, name)
    for_ever(held)


def drains(profile: str, root: str) -> NoReturn:
    """An engine that takes a while to end when it is asked to, and says itself that it is gone. It is asked once."""

    def asked(*_: object) -> NoReturn:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(8))
        sys.exit(7)

    signal.signal(signal.SIGTERM, asked)
    with opened(profile, root) as engine, engine.open("engine", plan="plan-a") as held:
        note(root, "engine")
        try:
            for_ever(held)
        finally:
            time.sleep(0.2)


def ends(profile: str, root: str, code: str) -> int:
    """An engine that does a step and ends by itself."""
    with opened(profile, root) as engine, engine.open("engine", plan="plan-a") as held:
        held.step("one", lambda _: 1)
    return int(code)


def ignores(profile: str, root: str) -> NoReturn:
    """An engine that TERM does not end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    waits(profile, root)


def leaves(profile: str, root: str, program: str) -> NoReturn:
    """An engine that starts a program and is killed with it at work."""
    _held = opened(profile, root).open("engine", plan="plan-a")
    subprocess.Popen(stray(program, root))
    await_note(root, program)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def leaves_a_pair(profile: str, root: str) -> NoReturn:
    """An engine that is killed while a process outside its group has a child outside that one's."""
    _held = opened(profile, root).open("engine", plan="plan-a")
    subprocess.Popen(stray("elder", root), start_new_session=True)
    await_note(root, "younger")
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def has_a_daemon(profile: str, root: str) -> NoReturn:
    """An engine that is killed while another one, below it, has fled to a session of its own."""
    _held = opened(profile, root).open("engine", plan="plan-a")
    subprocess.Popen(command("daemon", profile, root))
    await_note(root, "daemon")
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def daemon(profile: str, root: str) -> NoReturn:
    """Leave the session, and be an engine there."""
    flee()
    waits(profile, root, "daemon")


def has_engines_below(profile: str, root: str) -> NoReturn:
    """Two engines in one process, a third in a child that was started as anybody starts one."""
    held = [opened(profile, root).open(scope, plan="plan-a") for scope in ("first", "second")]
    child = subprocess.Popen(command("waits", profile, root, "third"))
    await_note(root, "third")
    note(root, "engine")
    for_ever(held, child)


def tell(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]](*sys.argv[2:]))
