"""The local edge for tests: the real Worker in a process of its own, over a state folder, on free ports."""

from __future__ import annotations

import random
import re
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent
SERVE = (sys.executable, ROOT / "scripts" / "edge_serve.py")
READY = re.compile(r"ready public=(?P<public>\S+) private=(?P<private>\S+) operator=(?P<operator>\S+)\n")


@dataclass(frozen=True, slots=True)
class Edge:
    """A running edge: its two addresses, the operator's credential, its folder, and the process that serves it."""

    public: str
    private: str
    operator: str
    state: Path
    process: subprocess.Popen[str]


@contextmanager
def local_edge(
    state: Path, *, project: str = "contextful", entry: Path | None = None, program: Sequence[str | Path] = SERVE
) -> Iterator[Edge]:
    """Serve the state in `state` until the block ends, with another main module where one is given.

    `program` is what serves it; tests skip the setup that `scripts/edge` begins with, having been set up themselves.
    """
    port, private = free_ports(2)
    where = ["--port", str(port), "--private-port", str(private), "--state", str(state), "--project", project]
    if entry:
        where += ["--entry", str(entry)]
    process = subprocess.Popen([*program, *where], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        line = process.stdout.readline()
        match = READY.fullmatch(line)
        assert match, f"the edge said {line!r}; its log: {_log(state)}"
        yield Edge(match["public"], match["private"], match["operator"], state, process)
    finally:
        process.terminate()
        process.communicate(timeout=20)


def free_ports(count: int) -> list[int]:
    """`count` loopback ports that nobody listens on, below those that the machine gives to outgoing connections."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.append(port)
    return ports


def _log(state: Path) -> str:
    log = state / "edge.log"
    return log.read_text(encoding="utf-8")[-2000:] if log.exists() else "none"
