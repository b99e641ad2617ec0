"""What the world of the guards' model is made of: attempts and their engines, requests on the wire, a destination."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from engine.execution.keeper import LEASE_MS
from tests.model.guards_store import AFRESH, Adrift, Past

if TYPE_CHECKING:
    from tests.model.replay import Rows

TICK_MS: Final = LEASE_MS + 1
"""Every turn of the clock passes a lease that was not renewed since."""

WINDOW_MS: Final = TICK_MS * 3 // 2


class Bounds(NamedTuple):
    """How far an exploration goes.

    `attempts` are named by letters, the last of several is spared all harm. Each makes up to `calls` of the step, each
    call up to `tries` of its effect. The clock turns `ticks` times, `lost` answers of the store are lost, an operator
    has `reconciled` guards at the most, and `waits` between the look and the release. An engine may close, or only
    crash; the serve process above it may die. The programs of the attempts `elsewhere` name another destination.
    """

    attempts: str = "AB"
    window_ms: int | None = WINDOW_MS
    ticks: int = 1
    lost: int = 0
    reconciled: int = 1
    calls: int = 1
    tries: int = 1
    closes: bool = False
    serve_dies: bool = False
    waits: bool = False
    elsewhere: str = ""

    def destination(self, name: str) -> str:
        """The destination that the program of the attempt `name` names."""
        return "other" if name in self.elsewhere else "vendor"


class Life(NamedTuple):
    """Where an attempt and its engine stand: what it does next, what its keeper knows, and whether it runs at all.

    `sends` counts the requests that left, the last of them under the guard `under`.
    """

    past: Past = AFRESH
    on: str = "start"
    result: Any = None
    known_until: int = LEASE_MS
    sends: int = 0
    under: str = ""
    leaving: bool = False
    up: bool = True


class Request(NamedTuple):
    """A request that has not arrived: whose, which of its sends, the instant at which it left, and where to."""

    name: str
    number: int
    left_at: int
    to: str


class State(NamedTuple):
    """Everything the world is.

    The destination `at` has `acted` so often and knows the key until an instant. `adrift` are batches that may still be
    applied, `deciding` is an operator's with what it claims of the destination.
    """

    rows: Rows
    now: int
    lives: tuple[tuple[str, Life], ...]
    wire: tuple[Request, ...] = ()
    acted: int = 0
    at: str = ""
    remembers_until: int = 0
    adrift: tuple[tuple[str, Adrift], ...] = ()
    deciding: tuple[str, Adrift] | None = None
    lost: int = 0
    reconciled: int = 0
    serve: bool = True
    rewound: bool = False
    broken: str | None = None


def put(state: State, name: str, life: Life) -> State:
    """The state in which the attempt `name` stands so."""
    return state._replace(lives=tuple((each, life if each == name else held) for each, held in state.lives))


def sent(state: State, name: str, life: Life, *, under: str, to: str) -> State:
    """The state in which a request of `name` has left."""
    request = Request(name, life.sends + 1, state.now, to)
    moved = dict(state.lives)[name]._replace(sends=request.number, under=under)
    return put(state, name, moved)._replace(wire=(*state.wire, request))


def arrived(state: State, request: Request, *, window_ms: int | None) -> State | None:
    """The state once a request has arrived; None for one that the network has kept past the window."""
    state = state._replace(wire=without(state.wire, request))
    again = state.acted and state.at == request.to
    if again and state.now < state.remembers_until:
        return state
    if again and request.left_at < state.remembers_until:
        return None
    twice = "the destination has acted twice" if again else "two destinations have acted"
    broken = state.broken or (twice if state.acted else None)
    until = state.now + (window_ms or 0)
    return state._replace(acted=state.acted + 1, at=request.to, remembers_until=until, broken=broken)


def awaited(state: State, name: str) -> Request | None:
    """The request whose answer the attempt waits for, unless it has arrived."""
    sends = dict(state.lives)[name].sends
    return next((each for each in state.wire if each[:2] == (name, sends)), None)


def told_apart(state: State, *, window_ms: int | None) -> State:
    """The state without requests that can make no difference: their destination knows the key, or has forgotten it."""
    if not (state.wire and state.acted and window_ms):
        return state
    waiting = {(name, life.sends) for name, life in state.lives if life.on == "answer"}
    return state._replace(wire=tuple(each for each in state.wire if each[:2] in waiting or each.to != state.at))


def true(claim: str, state: State, *, at: str) -> bool:
    """Whether what an operator claims of the destination `at` is so."""
    acted = bool(state.acted) and state.at == at
    return {"acted": acted, "absent": not acted and all(each.to != at for each in state.wire)}.get(claim, True)


def without(wire: tuple[Request, ...], request: Request) -> tuple[Request, ...]:
    """The wire without the request."""
    return tuple(each for each in wire if each != request)
