"""A destination that honours keys for its window and counts what it executed: a real server, by a test's clock."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.answering import Answering, listening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.execution.call import Call

HANG_UP = "hang up"
"""Executes, and breaks the connection instead of answering."""

STALL = "stall"
"""Executes, and answers when nobody waits any more."""

DOWN = "down"
"""Breaks the connection and executes nothing."""

HALF = "half"
"""Executes, answers 200 and breaks off in the middle of the body."""


@dataclass
class Vendor:
    """Executes what comes under a new key, and answers a key it knows with what it answered first.

    `script` holds what happens to the next requests in turn: a status it answers without executing, or a word above. It
    forgets a key `window` milliseconds after it first came; None is a destination that honours no keys.
    """

    now: Callable[[], int]
    window: int | None = None
    script: list[int | str] = field(default_factory=list)
    received: list[str] = field(default_factory=list)
    executed: list[str] = field(default_factory=list)
    url: str = ""
    _known: dict[str, int] = field(default_factory=dict)
    _released: threading.Event = field(default_factory=threading.Event)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def send(self, call: Call, *, timeout: float = 0.5, **options: Any) -> Any:
        """What an effect does that calls it; the timeout is of each phase, in seconds."""
        answer = call.http.post(self.url, json={"amount": 1}, timeout=timeout, **options)
        return answer.raise_for_status().json()

    def meets(self, key: str) -> int | str:
        """Count a request and say what happens to it."""
        with self._turn:
            self.received.append(key)
            act = self.script.pop(0) if self.script else 200
            if act == DOWN or (isinstance(act, int) and act != 200):
                return act
            first = self._known.get(key)
            if first is None or self.window is None or self.now() >= first + self.window:
                self.executed.append(key)
                self._known[key] = self.now()
            return act

    @contextmanager
    def serving(self) -> Iterator[Vendor]:
        """Listen on a loopback port for as long as the block runs."""
        with listening(_Handler, vendor=self) as url:
            self.url = f"{url}/charges"
            try:
                yield self
            finally:
                self._released.set()

    def stalls(self) -> None:
        """Keep a request for as long as the server runs, or two seconds."""
        self._released.wait(2)


class _Handler(Answering):
    vendor: Vendor

    def reply(self) -> None:
        self.read()
        act = self.vendor.meets(self.headers.get("Idempotency-Key", ""))
        if act == STALL:
            self.vendor.stalls()
        if act in {STALL, HANG_UP, DOWN}:
            self.hang_up()
        elif act == HALF:
            self.answer(200, b'{"s', {"content-length": "15"})
            self.wfile.flush()
            self.hang_up()
        else:
            status = act if isinstance(act, int) else 200
            self.answer(status, {"status": status})
