"""Several engines, a destination and an operator, stepped by hand: a callback stands still wherever a test wants it."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from engine.errors import EffectSettled, EffectUnsettled, Permanent, Transient
from engine.guards.rules import Window
from engine.rewind import rewind
from engine.sql import call as sql
from tests.guarded import HOUR, ONCE, desk, engine_for, receipt, recorded_bytes, replayable
from tests.stores import Died

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.execution.call import Call
    from engine.execution.execution import Execution
    from engine.guards.guard import Standing
    from engine.host import Engine
    from tests.stores import Store

STEP: Final = "send"
PATIENCE_S: Final = 30


class How(StrEnum):
    """How a callback goes on from where it stands still."""

    RETURNS = "the destination acts and the callback returns"
    REFUSED = "the destination refuses"
    LOST_BEFORE = "the request is lost"
    LOST_AFTER = "the destination acts and its answer is lost"
    DIES_BEFORE = "the engine dies before it sends"
    DIES_AFTER = "the engine dies after the destination acted"


class Met(StrEnum):
    """What a walk begins with: mostly what few walks of its length would come to."""

    NOTHING = "nothing has been sent"
    IN_DOUBT = "a call was lost after the destination acted"
    FORGOTTEN = "so it was, and the window has passed"
    AGAIN = "so it was, and it is on its way once more"
    LATE = "so it is, and the window passes while the engine keeps its lease"


STARTS: Final = [
    *[(None, Met.NOTHING), (None, Met.IN_DOUBT)],
    *itertools.product((60_000, HOUR), [*Met, *[Met.LATE] * 4]),
]
"""What walks begin with: the destination's window, and what has happened."""


@dataclass
class World:
    """A destination that knows a key for `window` milliseconds from its first request, and what it executed when.

    `late` are the keys of requests that left for what it had executed and no longer knew.
    """

    now: Callable[[], int]
    window: int | None
    executed: dict[str, list[int]] = field(default_factory=dict)
    late: list[str] = field(default_factory=list)
    _known: dict[str, int] = field(default_factory=dict)

    def act(self, key: str) -> str:
        """Execute what `key` asks for, or answer as before."""
        first = self._known.setdefault(key, self.now())
        executed = self.executed.setdefault(key, [])
        if self.window is None or self.now() >= first + self.window:
            self._known[key] = self.now()
            executed.append(self.now())
        elif not executed:
            executed.append(self.now())
        return self.answer(key)

    def meets(self, key: str) -> None:
        """A request leaves, whatever becomes of it on its way."""
        if self.executed.get(key) and (self.window is None or self.now() >= self._known[key] + self.window):
            self.late.append(key)

    @staticmethod
    def answer(key: str) -> str:
        """What it answers `key` with."""
        return f"charged {key}"


@dataclass(repr=False)
class Out:
    """A step at work on a thread of its own, standing still inside its callback until it is told how to go on."""

    execution: Execution
    world: World
    key: str | None = None
    value: Any = None
    raised: BaseException | None = None
    _how: How | None = None
    _told: threading.Event = field(default_factory=threading.Event)
    _still: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        assert self._still.wait(PATIENCE_S), "the step neither calls nor ends"

    @property
    def ended(self) -> bool:
        """Whether the step has returned or raised."""
        return self._how is not None or self.key is None

    @property
    def died(self) -> bool:
        """Whether its engine died in it: one told to die after the act does not when it is refused before acting."""
        return isinstance(self.raised, Died)

    def go_on(self, how: How) -> None:
        """Let the callback go on, to the step's end."""
        self._how = how
        self._told.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive(), "the step does not end"

    def _work(self) -> None:
        try:
            self.value = self.execution.step(STEP, self._effect, schedule=ONCE, destination="vendor")
        except BaseException as raised:
            self.raised = raised
        finally:
            self._still.set()

    def _effect(self, call: Call) -> str:
        self.key = call.idempotency_key
        self._still.set()
        assert self._told.wait(PATIENCE_S * 10), "nobody says how to go on"
        if self._how is How.DIES_BEFORE:
            raise Died
        call.check()
        self.world.meets(self.key)
        if self._how is How.REFUSED:
            raise Permanent("no such customer")
        if self._how is How.LOST_BEFORE:
            raise Transient("no answer came")
        answer = self.world.act(self.key)
        if self._how is How.LOST_AFTER:
            raise Transient("no answer came")
        if self._how is How.DIES_AFTER:
            raise Died
        return answer


@dataclass(repr=False)
class Life:
    """An engine's process: what it has open, and which of its callbacks stand still."""

    store: Store
    world: World
    engine: Engine = field(init=False)
    open: dict[str, Execution] = field(default_factory=dict)
    out: dict[str, Out] = field(default_factory=dict)
    dead: bool = False
    reaped: bool = False

    def __post_init__(self) -> None:
        self.engine = engine_for(self.store, window=self.world.window, stalls=True)

    def send(self, scope: str) -> Out:
        """Begin the step of `scope`: it stands still in its callback, or has ended without one."""
        out = Out(self.open[scope], self.world)
        if not out.ended:
            self.out[scope] = out
        return out

    def renew(self) -> None:
        """What the keeper does every ten seconds."""
        for execution in self.open.values():
            held = execution._held
            self.engine.leases._tend(held.attempt, held.cancellation)

    def die(self) -> None:
        """End as a process does: what was out sends nothing more, and nothing is written."""
        for out in self.out.values():
            out.go_on(How.DIES_BEFORE)
        self.out.clear()
        self.dead = True

    def reap(self) -> None:
        """Record its exit, as the serve process above it does once nothing of it is left."""
        self.engine.keeper.stop()
        self.store.here.profile.database.run(sql("exit_holder", holder=self.engine.leases.holder))
        self.reaped = True


def truths(world: World, found: Standing) -> list[tuple[str, bytes | None]]:
    """Every evidence that is true, with its value: what the destination says of the key, or that it still knows it."""
    guard = found.guard
    true: list[tuple[str, bytes | None]] = [(receipt(guard, "absent"), None)]
    if guard.idempotency_key in world.executed:
        true = [(receipt(guard), None), (receipt(guard), recorded_bytes(World.answer(guard.idempotency_key)))]
    if guard.window(found.now) is Window.COVERS:
        true += [(replayable(guard), None)]
    return true


STUCK: Final = (EffectSettled, EffectUnsettled)
"""What only an operator moves on from."""

TIMES: Final = (1, 9_000, 20_000, 31_000, HOUR // 2, HOUR, 2 * HOUR)


def unstick(store: Store, raised: BaseException) -> None:
    """Do what the operator is told to who meets `raised`."""
    if isinstance(raised, EffectSettled):
        key = raised.receipt.split(":")[1]
        value = recorded_bytes(World.answer(key))
        desk(store).supply(raised.token, evidence=raised.receipt, operator="ops", value=value)
    elif isinstance(raised, EffectUnsettled):
        rewind(store.here, raised.execution_id, reason="start over", force=True)
