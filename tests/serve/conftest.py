"""A store, a supervisor over it in a process of its own, and what became of its holders."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engine.ports import Call, Statement
from tests.cli.conftest import shell, slow_third_page
from tests.conftest import blank_store
from tests.serve.programs import ROOT, command
from tests.serve.strays import alive, await_note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clocks import SettableClock
    from tests.stores import Store

__all__ = ["shell", "slow_third_page"]

EXITS = Statement(
    "exits", "SELECT id, exited_at FROM holders ORDER BY registered_at, id", (), reads=True, durable=False
)


@dataclass
class Ended:
    """How a supervisor ended, and what it told: lines it said, recordings it tried."""

    code: int
    said: list[str]
    recordings: list[dict[str, Any]]

    @property
    def running(self) -> list[str]:
        """What still ran when the exits were recorded."""
        (recording,) = self.recordings
        return list(recording["running"])


@dataclass
class Ground:
    """Where programs are run under a supervisor."""

    store: Store
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def serve(self, program: str, *arguments: str, grace_s: float = 30) -> subprocess.Popen[str]:
        """Start a program under a supervisor."""
        return self.run("supervises", str(grace_s), program, *arguments)

    def run(self, name: str, *arguments: str) -> subprocess.Popen[str]:
        """Start a program alone."""
        argv = command(name, self.store.profile_name, str(self.store.root), *arguments)
        environ = os.environ | self.store.environ
        self.started.append(subprocess.Popen(argv, cwd=ROOT, env=environ, stdout=subprocess.PIPE, text=True))
        return self.started[-1]

    def noted(self, name: str) -> int:
        """The process that left the word `name`, once it has."""
        return await_note(str(self.store.root), name)

    def ended(self, serve: subprocess.Popen[str], *, before: str = "") -> Ended:
        """Wait for a supervisor; `before` is what was read of it already."""
        rest, _ = serve.communicate(timeout=30)
        told = [json.loads(line) for line in (before + rest).splitlines()]
        return Ended(serve.returncode, [t["said"] for t in told if "said" in t], [t for t in told if "recording" in t])

    def holders(self) -> dict[str, int | None]:
        """When each holder was recorded gone, None for one that was not."""
        (rows,) = self.store.here.profile.database.run(Call(EXITS, {}))
        return dict(rows)

    def exits(self) -> list[bool]:
        """Whether each holder was recorded gone, the first registered first."""
        return [exited_at is not None for exited_at in self.holders().values()]

    def close(self) -> None:
        """Leave nothing running, whatever the test came to."""
        for process in self.started:
            process.kill()
        for path in (self.store.root / "notes").glob("[a-z]*"):
            pid = int(path.read_text())
            with suppress(ProcessLookupError):
                if alive(pid) and b"tests.serve." in _command_line(pid):
                    os.kill(pid, signal.SIGKILL)
        for process in self.started:
            process.communicate()  # the last of those who write there is gone


def _command_line(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@pytest.fixture(params=["sqlite"])
def blank(request: pytest.FixtureRequest, tmp_path: Path, clock: SettableClock) -> Iterator[Store]:
    """A store nobody has initialized."""
    yield from blank_store(request, tmp_path, clock)


@pytest.fixture
def ground(store: Store) -> Iterator[Ground]:
    """An initialized store for programs."""
    ground = Ground(store)
    ground.exits()  # what reads them is ready before anything is in a hurry
    yield ground
    ground.close()
