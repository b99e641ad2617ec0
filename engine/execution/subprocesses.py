"""Processes an effect starts: in a group of their own, their output kept up to a bound, none left behind by a stop.

A stop signals the whole group, TERM first and KILL after a grace, and the run is recorded canceled only once nothing of
the group runs any more (run.cancel.child-reaped). A process that leaves its group, as a daemon does, is out of reach.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Self

from engine.errors import Permanent
from engine.execution.aside import Aside

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from engine.execution.cancellation import Cancellation

KILL_AFTER_MS: Final = 10_000
"""How long a stopped group may take to end by itself before it is killed."""

OUTPUT_LIMIT: Final = 1 << 20
"""Bytes kept of each stream; the rest is read and let go, so that no process blocks on a full pipe."""

_LOOK_S: Final = 0.01
_CHUNK: Final = 1 << 16
_QUOTED: Final = 500


@dataclass(frozen=True, slots=True)
class Finished:
    """How a process ended: its exit code, negative for a signal, and the beginning of what it wrote."""

    argv: tuple[str, ...]
    code: int
    out: bytes
    err: bytes
    truncated: bool

    def checked(self) -> Self:
        """Return it if it ended with 0. Raise `Permanent` with the end of its standard error otherwise."""
        if self.code == 0:
            return self
        told = self.err[-_QUOTED:].decode("utf-8", "replace").strip()
        raise Permanent(f"{self.argv[0]} ended with {self.code}" + (f": {told}" if told else ""))


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    cancellation: Cancellation,
    stdin: bytes = b"",
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    output_limit: int = OUTPUT_LIMIT,
    kill_after_ms: int = KILL_AFTER_MS,
) -> Finished:
    """Run `argv`, without a shell, and return how it ended.

    Raise the token's reason once the group is gone, `Permanent` where the program cannot be started.
    """
    cancellation.check()
    command = tuple(os.fspath(part) for part in argv)
    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(  # noqa: S603 - what the program of the user asks for
            command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=env, start_new_session=True
        )
    except OSError as failure:
        raise Permanent(f"{command[0]} cannot be started: {failure.strerror or failure}") from failure
    aside = Aside(cancellation, name=f"contextful-child-{child.pid}", abandoning=lambda: None)
    try:
        return aside.run(partial(_ended, child, command, stdin=stdin, limit=output_limit))
    except BaseException:
        _end_group(child, grace_s=kill_after_ms / 1000)
        raise
    finally:
        aside.close(partial(_close_pipes, child))


def _close_pipes(child: subprocess.Popen[bytes]) -> None:
    """Close what nobody has: a stop may come between the child's start and the work on its pipes."""
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def _ended(child: subprocess.Popen[bytes], argv: tuple[str, ...], *, stdin: bytes, limit: int) -> Finished:
    assert child.stdin, "opened as a pipe"
    assert child.stdout, "opened as a pipe"
    assert child.stderr, "opened as a pipe"
    out, err = _Kept(child.stdout, limit), _Kept(child.stderr, limit)
    with suppress(BrokenPipeError), child.stdin as entry:  # it need not read what it is given
        entry.write(stdin)
    kept = out.all(), err.all()
    return Finished(argv, child.wait(), *kept, truncated=out.truncated or err.truncated)


class _Kept:
    """Reads a stream to its end on a thread of its own and keeps the beginning."""

    def __init__(self, stream: IO[bytes], limit: int) -> None:
        self.truncated = False
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, args=(stream, limit), daemon=True)
        self._thread.start()

    def all(self) -> bytes:
        """What was kept, once the stream has ended."""
        self._thread.join()
        return bytes(self._kept)

    def _read(self, stream: IO[bytes], limit: int) -> None:
        with stream:
            while chunk := os.read(stream.fileno(), _CHUNK):
                room = limit - len(self._kept)
                self._kept += chunk[:room]
                self.truncated = self.truncated or len(chunk) > room


def _end_group(child: subprocess.Popen[bytes], *, grace_s: float) -> None:
    """End every process of the child's group and collect the child."""
    _signal(child.pid, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while _alive(child) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    while _alive(child):
        _signal(child.pid, signal.SIGKILL)
        time.sleep(_LOOK_S)


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):  # the last of the group has just gone
        os.killpg(group, number)


def _alive(child: subprocess.Popen[bytes]) -> bool:
    """Whether anything of the child's group still runs; what has ended and nobody collects does not."""
    child.poll()
    try:
        os.killpg(child.pid, 0)
    except (ProcessLookupError, PermissionError):
        return child.returncode is None
    states = _states(child.pid)
    return states is None or any(state not in "ZX" for state in states)


def _states(group: int) -> list[str] | None:
    """The state of each process of the group; None where the machine does not tell."""
    if not Path("/proc/self/stat").exists():
        return None
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The command's name, in parentheses, may hold anything.
            state, _, pgrp, *_ = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(pgrp) == group:
                found.append(state)
    return found
