"""What tests run in processes of their own, to kill them or to watch what they sync."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from engine.clock import SystemClock
from engine.host import Engine, Settings
from engine.pipeline.declaration import Destination
from engine.profile import open_profile
from tests.stores import PROJECT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.execution.call import Call

ROOT = Path(__file__).parents[1]


def run(name: str, *arguments: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the child `name` to its end; what it prints is in the result."""
    command = [sys.executable, "-m", "tests.children", name, *arguments]
    inherited = os.environ | dict(environ or {})
    return subprocess.run(command, cwd=ROOT, env=inherited, capture_output=True, text=True, timeout=60, check=False)


def opened(profile_name: str, root: str, *, destinations: Mapping[str, Destination] | None = None) -> Engine:
    profile = open_profile(profile_name, Path(root), clock=SystemClock(), environ=os.environ)
    return Engine(profile, Settings(PROJECT, "site-1", destinations=destinations or {}))


def killed(_: Call) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def dies_in_the_third_step(profile_name: str, root: str) -> None:
    execution = opened(profile_name, root).open("index-42", plan="plan-a")
    execution.step("one", lambda _: 1)
    execution.step("two", lambda _: 2)
    execution.step("three", killed)


def records_fifty_steps(profile_name: str, root: str, scope: str) -> None:
    with opened(profile_name, root) as engine, engine.open(scope, plan="plan-a") as execution:
        for number in range(50):
            execution.step(f"step-{number}", lambda _: "done")


def prints_what_steps_sync(profile_name: str, root: str) -> None:
    """Print, for each kind of step, the files its syncs went to."""
    engine = opened(profile_name, root)
    _keep_the_log_growing(engine)
    execution = engine.open("job", plan="plan-a")
    port = _answering()
    effects: dict[str, Callable[[Call], Any]] = {
        "plain": lambda _: {"a": 1},
        "asking": lambda call: [call.http.get(f"http://127.0.0.1:{port}/").status_code for _ in range(3)],
    }
    found = {}
    for kind, effect in effects.items():
        before = len(_synced())
        execution.step(kind, effect)
        found[kind] = [Path(path).name for path in _synced()[before:]]
    before = len(_synced())
    execution.step("plain", killed)
    found["replayed"] = _synced()[before:]
    sys.stdout.write(json.dumps(found))
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def prints_what_guarded_steps_sync(profile_name: str, root: str) -> None:
    """Print the files of the syncs before a guarded effect is at work, and of those after it."""
    engine = opened(profile_name, root, destinations={"vendor": Destination("vendor", "http://vendor.test")})
    _keep_the_log_growing(engine)
    execution = engine.open("job", plan="plan-a")
    execution.step("warm", lambda _: None, destination="vendor")
    before = len(_synced())
    at_work = execution.step("send", lambda _: len(_synced()), destination="vendor")
    found = [Path(path).name for path in _synced()]
    sys.stdout.write(json.dumps({"before": found[before:at_work], "after": found[at_work:]}))
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def dies_with_a_claim_unsynced(profile_name: str, root: str) -> None:
    engine = opened(profile_name, root)
    _keep_the_log_growing(engine)
    execution = engine.open("job", plan="plan-a")
    execution.step("one", lambda _: 1)
    execution.step("two", lambda _: 2)

    def send(call: Call) -> None:
        sys.stdout.write(call.idempotency_key)
        sys.stdout.flush()
        killed(call)

    execution.step("three", send)


def _keep_the_log_growing(engine: Engine) -> None:
    engine.profile.database._connection.execute("PRAGMA wal_autocheckpoint=0")  # type: ignore[attr-defined] # its own


def _synced() -> list[str]:
    log = Path(os.environ["SYNC_LOG"])
    return [line.split(" ", 1)[1] for line in log.read_text().splitlines()] if log.exists() else []


def _answering() -> int:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
