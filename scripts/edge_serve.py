"""The local edge in the foreground: starts the Worker's host, says when it answers, and ends it with its children."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edge_stage import ENTRY, stage
from edge_tools import ROOT, VENDORED, Tools, tools

from engine.clock import Chance, SystemClock
from engine.operator.tokens import OperatorKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

READY_S: Final = 90
"""How long the Worker may take to answer; it takes a few seconds."""

GRACE_S: Final = 5
TOKEN_S: Final = 30 * 86_400
"""How long the operator's token is good that each start prints anew."""

DEPLOYED: Final = tomllib.loads((ROOT / "wrangler.toml").read_text(encoding="utf-8"))


def main() -> int:
    """Serve until TERM or INT."""
    asked = _arguments()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    _require_free(asked.port, asked.private_port)
    try:
        asked.state.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        msg = f"{asked.state} cannot be made ({problem.strerror}): name another folder with --state"
        raise SystemExit(msg) from None
    with (
        _kept_alone(asked.state),
        tempfile.TemporaryDirectory(prefix="contextful-edge-") as folder,
        _host(asked, tools(), stage(Path(folder) / "worker", entry=asked.entry), key := _key(asked.state)) as host,
    ):
        if not _answers(host, asked.private_port):
            print(f"the Worker does not answer; its log is {_log(asked.state)}", file=sys.stderr)
            return 1
        addresses = f"public=http://127.0.0.1:{asked.port} private=http://127.0.0.1:{asked.private_port}"
        print(f"ready {addresses} operator={_token(key, asked.project)}", flush=True)
        host.wait()
        print(f"the Worker's host ended by itself; its log is {_log(asked.state)}", file=sys.stderr)
        return 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/edge", description=__doc__)
    parser.add_argument("--port", type=_port, default=8787, help="loopback port of the public side (8787)")
    parser.add_argument("--private-port", type=_port, default=8788, help="loopback port of the private binding (8788)")
    parser.add_argument("--state", type=Path, default=Path(".contextful/edge"), help="folder that keeps D1 and R2")
    parser.add_argument("--project", default="contextful", help="names the database and the bucket in it")
    parser.add_argument("--entry", type=Path, default=ENTRY, help="another main module, for tests of the Worker")
    parser.add_argument(
        "--var", type=_variable, action="append", default=[], metavar="NAME=VALUE", help="a variable of the Worker"
    )
    asked = parser.parse_args()
    if asked.port == asked.private_port:
        parser.error(f"--port and --private-port are both {asked.port}: the two sides need a port each")
    asked.state = asked.state.resolve()
    return asked


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65_535:
        msg = f"{text!r} is no port: a number from 1 to 65535 is"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def _variable(text: str) -> tuple[str, str]:
    name, parted, value = text.partition("=")
    if not name or not parted:
        msg = f"{text!r} is not NAME=VALUE"
        raise argparse.ArgumentTypeError(msg)
    return name, value


def _end(number: int, _frame: FrameType | None) -> None:
    # A second signal must not interrupt the end of the children.
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(130 if number == signal.SIGINT else 0)


def _require_free(*ports: int) -> None:
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as taken:
                msg = f"port {port} is taken ({taken.strerror}): name others with --port, --private-port"
                raise SystemExit(msg) from None


def _key(state: Path) -> OperatorKey:
    """The key pair of this state folder, drawn once: no other edge takes its tokens."""
    kept = state / "operator.pem"
    return OperatorKey.kept(kept) if kept.exists() else OperatorKey.drawn(kept)


def _token(key: OperatorKey, project: str) -> str:
    now_s = SystemClock().now() // 1000
    return key.token(project=project, operator="local-edge", ttl_s=TOKEN_S, now_s=now_s, chance=Chance())


@contextmanager
def _kept_alone(state: Path) -> Iterator[None]:
    """Hold the state folder against another edge: two would write one database apart."""
    with (state / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            msg = f"another edge serves {state}: end it, or name another folder with --state"
            raise SystemExit(msg) from None
        yield


def _log(state: Path) -> Path:
    return state / "edge.log"


@contextmanager
def _host(
    asked: argparse.Namespace, programs: Tools, staged: Path, key: OperatorKey
) -> Iterator[subprocess.Popen[bytes]]:
    """The process that holds workerd, in a process group of its own that ends with the block."""
    settings = {
        "stage": str(staged),
        "vendored": str(VENDORED),
        "state": str(asked.state),
        "port": asked.port,
        "privatePort": asked.private_port,
        "project": asked.project,
        "date": DEPLOYED["compatibility_date"],
        "bindings": {
            **DEPLOYED["vars"],
            "PROJECT": asked.project,
            "OPERATOR_KEYS": key.public,
            **dict(asked.var),
        },
        "objects": {"ENGINE": {"className": "EngineContainer", "useSQLite": True}},
    }
    environment = {**programs.environment, "CONTEXTFUL_EDGE": json.dumps(settings)}
    with _log(asked.state).open("ab") as log:
        host = subprocess.Popen(
            [programs.node, ROOT / "scripts" / "edge_host.mjs"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=ROOT,
            start_new_session=True,
        )
    try:
        yield host
    finally:
        _finish(host)


def _finish(host: subprocess.Popen[bytes]) -> None:
    if host.stdin:
        host.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        host.wait(GRACE_S)
    # Whatever is left of the group, workerd above all, which outlives its parent.
    with suppress(ProcessLookupError):
        os.killpg(host.pid, signal.SIGKILL)
    host.wait()


def _answers(host: subprocess.Popen[bytes], port: int) -> bool:
    until = time.monotonic() + READY_S
    while time.monotonic() < until and host.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/health", timeout=READY_S):
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    return False


if __name__ == "__main__":
    sys.exit(main())
