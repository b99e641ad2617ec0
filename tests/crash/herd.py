"""The test's side of `child`: starts jobs as processes of their own, stops, continues and kills them."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.forked import Forks
from tests.scale import scale

if TYPE_CHECKING:
    from queue import SimpleQueue

PATIENCE_S = 60
KILLED = -signal.SIGKILL
LOCAL = ["sqlite", "file"]
ON_EDGE = "cloudflare-d1"
PROFILES = [*LOCAL, ON_EDGE]
USUAL = scale(short=LOCAL, full=PROFILES)
"""The profiles of what can wait for the full scale where every process makes some fifty requests to an edge."""


@dataclass
class Child:
    """One process: what it was told, and once it has ended how."""

    job: dict[str, Any]
    events: SimpleQueue[dict[str, Any]]
    pid: int = 0

    def stopped(self) -> None:
        """Wait until it has stopped itself; an end instead is the test's failure."""
        event = self.events.get(timeout=PATIENCE_S)
        assert event["event"] == "stopped", f"meant to stop, but ended: {event}, {self.result}"

    def ended(self) -> int:
        """Wait for its end and return its exit code, negative for the signal that ended it."""
        while (event := self.events.get(timeout=PATIENCE_S))["event"] != "ended":
            pass
        return int(event["code"])

    def goes_on(self) -> None:
        """Continue it after a stop."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill it, if it is still there."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    @property
    def result(self) -> dict[str, Any]:
        """What the job returned; only once it has ended by itself."""
        told: dict[str, Any] = json.loads(Path(self.job["result"]).read_text(encoding="utf-8"))
        return told


class Herd(Forks):
    """A server of forked children. Results and complaints go to the folder `scratch`."""

    module = "tests.crash.child"
    patience_s = PATIENCE_S

    def start(self, do: str, root: Path, **options: Any) -> Child:
        """Start the job `do` on the project in `root`."""
        number = self.number()
        job = {"do": do, "root": str(root), "number": number, "result": str(self.scratch / f"{number}.json"),
               "profile": "sqlite", **options}  # fmt: skip
        child = Child(job, self.sent(job))
        child.pid = child.events.get(timeout=PATIENCE_S)["pid"]
        return child

    def finished(self, do: str, root: Path, **options: Any) -> dict[str, Any]:
        """Do the job to its end and return what it returned."""
        child = self.start(do, root, **options)
        code = child.ended()
        assert code in {0, 1, 75}, f"{do} ended with {code}:\n{self.complaints()}"
        return child.result


def scaled(profile: str, *, short: int, full: int, on_edge: tuple[int, int]) -> int:
    """How far a test goes under `profile`; `on_edge` says the same, short and full, where it goes over an edge."""
    return scale(short=on_edge[0], full=on_edge[1]) if profile == ON_EDGE else scale(short=short, full=full)
