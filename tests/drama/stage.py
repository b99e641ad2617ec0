"""The test's side of a drama: processes to start, stop and kill, destinations, a clock, and the operator's commands."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any, Final

from tests.drama.parts import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE_S: Final = 90
KILLED: Final = -signal.SIGKILL


@dataclass
class Actor:
    """One process; `told` is the last it said of each thing."""

    job: dict[str, Any]
    events: SimpleQueue[dict[str, Any]]
    pid: int = 0
    told: dict[str, Any] = field(default_factory=dict)
    code: int | None = None

    def until(self, name: str, value: Any = None) -> dict[str, Any]:
        """Wait for an event, or for something to be told (of that value); an end that comes before it fails."""
        while True:
            event = self._next()
            if event["event"] == name or (name in event and value in {None, event[name]}):
                return event
            assert event["event"] != "ended", f"meant to be {name}, and ended: {event}, {self.told}"

    def ended(self) -> int:
        """Wait for its end and return its exit code, negative for the signal that ended it."""
        while self.code is None:
            self._next()
        return self.code

    def passes(self) -> str:
        """Wait until it stops, ends or has a request kept, whichever comes first: the name of that."""
        while (event := self._next())["event"] not in {"stopped", "ended", "kept"}:
            pass
        return str(event["event"])

    def signal(self, number: signal.Signals) -> None:
        """Signal the engine itself, which is another process than the supervisor above it."""
        with suppress(ProcessLookupError):
            os.kill(self.told.get("pid", self.pid), number)

    def kill(self) -> int:
        """Kill the engine and wait for the end of what was started here."""
        self.signal(signal.SIGKILL)
        return self.ended()

    def _next(self) -> dict[str, Any]:
        event = self.events.get(timeout=PATIENCE_S)
        if event["event"] == "told":
            self.told |= event
        elif event["event"] == "ended":
            self.code = event["code"]
        return event


class Troupe:
    """Starts actors; complaints go to the folder `scratch`."""

    def __init__(self, scratch: Path) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self.scratch = scratch
        self._numbers: Iterator[int] = itertools.count()
        self._events: dict[int, SimpleQueue[dict[str, Any]]] = defaultdict(SimpleQueue)
        self._complaints = (scratch / "complaints").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.drama.troupe"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
        )
        assert self._process.stdin
        assert self._process.stdout
        self._input: IO[bytes] = self._process.stdin
        self._output: IO[bytes] = self._process.stdout
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def start(self, part: str, **job: Any) -> Actor:
        """Start a part."""
        number = next(self._numbers)
        actor = Actor({"part": part, "number": number, **job}, self._events[number])
        self._input.write(json.dumps(actor.job).encode() + b"\n")
        self._input.flush()
        actor.pid = actor.until("started")["pid"]
        return actor

    def complaints(self) -> str:
        """The last that any actor wrote to its standard error."""
        return (self.scratch / "complaints").read_text(encoding="utf-8", errors="replace")[-4000:]

    def close(self) -> None:
        """End everybody."""
        self._input.close()
        self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        self._output.close()
        self._complaints.close()

    def _read(self) -> None:
        for line in self._output:
            event = json.loads(line)
            self._events[event["number"]].put(event)
