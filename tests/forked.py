"""The test's side of `forks`: a process that forks others on demand, and what it tells of each."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from collections import defaultdict
from pathlib import Path
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]


class Forks:
    """Runs `module`, which serves; what any process complains of goes to the folder `scratch`."""

    module: ClassVar[str]
    patience_s: ClassVar[int]

    def __init__(self, scratch: Path) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self.scratch = scratch
        self._numbers: Iterator[int] = itertools.count()
        self._events: dict[int, SimpleQueue[dict[str, Any]]] = defaultdict(SimpleQueue)
        self._writing = threading.Lock()
        self._complaints = (scratch / "complaints").open("wb")
        self._server = subprocess.Popen(
            [sys.executable, "-m", self.module, str(scratch)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
        )
        assert self._server.stdin
        assert self._server.stdout
        self._input: IO[bytes] = self._server.stdin
        self._output: IO[bytes] = self._server.stdout
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def number(self) -> int:
        """A number for the next job."""
        return next(self._numbers)

    def sent(self, job: dict[str, Any]) -> SimpleQueue[dict[str, Any]]:
        """Send a job that has its number; return where its events come."""
        events = self._events[job["number"]]
        with self._writing:
            self._input.write(json.dumps(job).encode() + b"\n")
            self._input.flush()
        return events

    def complaints(self) -> str:
        """The last that any of its processes wrote to its standard error."""
        return (self.scratch / "complaints").read_text(encoding="utf-8", errors="replace")[-4000:]

    def close(self) -> None:
        """End the server and every process with it."""
        self._input.close()
        self._server.wait(self.patience_s)
        self._reader.join(self.patience_s)
        self._output.close()
        self._complaints.close()

    def _read(self) -> None:
        for line in self._output:
            event = json.loads(line)
            self._events[event["number"]].put(event)
