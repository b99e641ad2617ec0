"""The test's side of a drama: processes to start, stop and kill, destinations, a clock, and the operator's commands."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.forked import Forks

if TYPE_CHECKING:
    from queue import SimpleQueue

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


class Troupe(Forks):
    """Starts actors; complaints go to the folder `scratch`."""

    module = "tests.drama.troupe"
    patience_s = PATIENCE_S

    def start(self, part: str, **job: Any) -> Actor:
        """Start a part."""
        numbered = {"part": part, "number": self.number(), **job}
        actor = Actor(numbered, self.sent(numbered))
        actor.pid = actor.until("started")["pid"]
        return actor
