"""A destination: a real server that honours keys for its window by its own clock, and counts what it executed."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tests.answering import Answering, listening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PATIENCE_S: Final = 60


class Manner(StrEnum):
    """How the next request is met, where it is not by executing and answering, or by a bare status."""

    HOLDS = "holds"
    """It is kept on its way and executed once it is let go."""
    ACTS_AND_HOLDS = "acts and holds"
    """It is executed, and the answer kept."""
    ACTS_AND_BREAKS = "acts and breaks"
    """It is executed, and the connection broken instead of an answer."""
    BREAKS = "breaks"
    """The connection is broken, and nothing is executed."""


ACTING: Final = frozenset({None, Manner.HOLDS, Manner.ACTS_AND_HOLDS, Manner.ACTS_AND_BREAKS})


@dataclass(frozen=True, slots=True)
class Executed:
    """One execution: under which key, at which instant of the destination's clock, for which path."""

    key: str
    at: int
    path: str
    receipt: str


@dataclass
class Kept:
    """A request that is kept, before or after it is executed."""

    key: str
    go: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)


@dataclass
class Destination:
    """Executes what comes under a new key; a key that it knows is answered with what it answered first.

    It forgets a key `window_ms` after it first came, and knows none where that is None. `now` is its clock, which
    `ahead_ms` moves; `hears` is told of each request that is kept.
    """

    now: Callable[[], int]
    window_ms: int | None
    url: str = ""
    ahead_ms: int = 0
    manners: list[Manner | int] = field(default_factory=list)
    arrived: list[tuple[str, str]] = field(default_factory=list)
    executed: list[Executed] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    hears: Callable[[dict[str, str]], None] | None = None
    _known: dict[str, Executed] = field(default_factory=dict)
    _turn: threading.Condition = field(default_factory=threading.Condition)

    def of(self, path: str) -> list[Executed]:
        """What was executed for `path`."""
        with self._turn:
            return [each for each in self.executed if each.path == path]

    def under(self, key: str) -> Executed | None:
        """What an operator finds under `key`."""
        with self._turn:
            return next((each for each in self.executed if each.key == key), None)

    def keys(self, path: str) -> list[str]:
        """The keys that came for `path`, one a request."""
        with self._turn:
            return [key for key, to in self.arrived if to == path]

    def await_kept(self) -> None:
        """Wait until a request is kept."""
        with self._turn:
            assert self._turn.wait_for(lambda: self.kept, PATIENCE_S), "no request came to be kept"

    def let_go(self) -> None:
        """Let every kept request go, and wait until each is executed, whether somebody waits for it or not."""
        with self._turn:
            kept, self.kept = self.kept, []
        for each in kept:
            each.go.set()
            assert each.over.wait(PATIENCE_S), "a request that was let go is not executed"

    def meets(self, key: str, path: str) -> tuple[Manner | int | None, Kept | None]:
        """Take a request in: how it is met, and what keeps it."""
        with self._turn:
            self.arrived.append((key, path))
            manner = self.manners.pop(0) if self.manners else None
        if manner is Manner.HOLDS:
            return manner, self._keep(key)
        if manner is Manner.ACTS_AND_HOLDS:
            self.execute(key, path)
            return manner, self._keep(key)
        return manner, None

    def execute(self, key: str, path: str) -> Executed:
        """Execute, unless the key is known; what was executed under it."""
        with self._turn:
            at, known = self.now() + self.ahead_ms, self._known.get(key)
            if known is not None and self.window_ms is not None and at < known.at + self.window_ms:
                return known
            done = self._known[key] = Executed(key, at, path, f"ch_{len(self.executed) + 1}")
            self.executed.append(done)
            return done

    def _keep(self, key: str) -> Kept:
        kept = Kept(key)
        with self._turn:
            self.kept.append(kept)
            self._turn.notify_all()
            if self.hears:
                self.hears({"event": "kept"})
        return kept


@contextmanager
def serving(destination: Destination) -> Iterator[Destination]:
    """Listen on a loopback port until the block ends."""
    with listening(_Handler, destination=destination) as destination.url:
        try:
            yield destination
        finally:
            destination.let_go()


class _Handler(Answering):
    destination: Destination

    def reply(self) -> None:
        self.read()
        there, key = self.destination, self.headers.get("Idempotency-Key", "")
        manner, kept = there.meets(key, self.path)
        if kept:
            assert kept.go.wait(PATIENCE_S * 4)
        done = there.execute(key, self.path) if manner in ACTING and manner is not Manner.ACTS_AND_HOLDS else None
        if kept:
            kept.over.set()
        if manner in {Manner.ACTS_AND_BREAKS, Manner.BREAKS}:
            self.hang_up()
            return
        receipt = done or there.under(key)
        self.answer(manner if isinstance(manner, int) else 200, {"charge": receipt.receipt if receipt else "none"})
