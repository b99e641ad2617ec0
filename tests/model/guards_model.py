"""Attempts of one owner that send one effect to one destination, each on the engine's own course of a guarded step.

Every attempt has an engine of its own: A holds the owner at first, the others take it as soon as the statements let
them. Any engine stalls anywhere, renews late, crashes, closes or is reaped; answers of the store and of the destination
are lost, batches and requests arrive late, and an operator who looks at the destination reconciles, or gives up. Only
the last attempt meets no harm: what it cannot bring to an end nobody can.

What no protocol can prevent is left out: a request delayed past the window of a destination that honours keys, and an
operator's word that contradicts what the destination and the wire say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from engine.execution.keeper import LEASE_MS
from engine.pipeline.declaration import Destination
from tests.model import guards_acts as acts
from tests.model import guards_engine as engine
from tests.model.guards_store import MOVING, GuardStore, Move, Sees, committed
from tests.model.guards_theorems import COLUMNS, Told, judged
from tests.model.guards_world import (
    TICK_MS,
    Bounds,
    Life,
    State,
    arrived,
    awaited,
    put,
    sent,
    told_apart,
    true,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.model.replay import Mutations, Rows

NAMES_REWIND: Final = {"EffectElsewhere", "EffectSettled", "EffectUnsettled"}
"""The refusals whose way on is a rewind."""

SENT_AS: Final = engine.KEY.idempotency_key

_DESTINATION: Final = COLUMNS["guards"].split().index("destination")

SAYINGS: Final = (
    ("known", f"idempotency:{SENT_AS}", None),
    ("acted", f"receipt:{SENT_AS}:r-1", None),
    ("acted", f"receipt:{SENT_AS}:r-1", b"by hand"),
    ("absent", f"receipt:{SENT_AS}:absent", None),
)
"""What an operator may say: what it claims of the destination, the evidence, a value with it."""


class GuardsModel:
    """The transitions between states, each judged by the theorems as it is made."""

    def __init__(self, bounds: Bounds, *, mutations: Mutations | None = None) -> None:
        self.store = GuardStore(mutations=mutations)
        self.bounds = bounds
        self._programs = {
            name: engine.Life(name, _destination(name, bounds), tries=bounds.tries, calls=bounds.calls)
            for name in bounds.attempts
        }
        self._spared = bounds.attempts[-1] if bounds.attempts[1:] else None
        self._last_instant = bounds.ticks * TICK_MS
        self._owners, self._guards = (MOVING.index(table) for table in ("owners", "guards"))
        self._judgements: dict[Any, str | None] = {}

    def initial(self) -> State:
        """A holds the owner and has done nothing yet."""
        rows, _ = self.store.act(acts.opened, "A", rows=self.store.empty, now=0)
        return State(rows, 0, (("A", Life()),))

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Every turn of every attempt, and whatever befalls them."""
        if state.broken or state.rewound:
            return
        for name, life in state.lives:
            if life.up:
                yield from self._turns(state, name, life)
                if name != self._spared:
                    yield from self._engine(state, name, life)
            elif state.serve and (state.adrift or self.guarded(state)):
                yield from self._acted(state, f"serve records that {name}'s engine is gone", acts.reaped, name)
        yield from self._world(state)
        yield from self._takeover(state)
        yield from self._operator(state)
        yield from self._rewind(state)

    def settled(self, state: State) -> bool:
        """Whether the scope is free: its owner retired."""
        return not state.rows[self._owners]

    def guarded(self, state: State) -> bool:
        """Whether a guard stands."""
        return bool(state.rows[self._guards])

    def _turns(self, state: State, name: str, life: Life) -> Iterator[tuple[str, State]]:
        if life.on == "ended":
            return
        sees = Sees(life.known_until, life.leaving)
        for answer, world in self._answers(state, name, life):
            move = self.store.move(self._programs[name], life.past, state.rows, now=state.now, answer=answer, sees=sees)
            after = self._moved(world, name, life, move, answer=answer)
            after = self._judged(state, after, Told("own", name, sent=move.sent))
            yield f"{name} {move.did}", told_apart(after, window_ms=self.bounds.window_ms)

    def _moved(self, state: State, name: str, life: Life, move: Move, *, answer: Any) -> State:
        result = move.result if move.result in NAMES_REWIND else None
        state = put(state, name, life._replace(past=move.past, on=move.on, result=result))._replace(rows=move.rows)
        if answer in {"lost", "late"}:
            state = state._replace(lost=state.lost + 1)
        if move.adrift:
            state = state._replace(adrift=(*state.adrift, (name, move.adrift)))
        if move.result == "ExecutionTransferBlocked" and (unsent := self._unsent(move.rows, name, life)):
            state = state._replace(broken=f"{name} is kept out by {unsent} of its own, under which nothing left")
        to = self.bounds.destination(name)
        return sent(state, name, life, under=move.sent, to=to) if move.sent else state

    def _unsent(self, rows: Rows, name: str, life: Life) -> str | None:
        """A guard of this life's that stands without a request behind it."""
        tokens = [row[1] for row in rows[self._guards]]
        return next((token for token in tokens if token.startswith(name) and token != life.under), None)

    def _answers(self, state: State, name: str, life: Life) -> Iterator[tuple[Any, State]]:
        """What the next act of a life may be answered, each with the world as the answer leaves it."""
        if life.on == "answer":
            yield from self._replies(state, name)
            return
        yield None, state
        if name != self._spared and state.lost < self.bounds.lost and life.on in {"start", "reads", "writes"}:
            yield "lost", state
            if life.on != "reads":
                yield "late", state

    def _replies(self, state: State, name: str) -> Iterator[tuple[Any, State]]:
        request = awaited(state, name)
        there = arrived(state, request, window_ms=self.bounds.window_ms) if request else state
        if there:
            yield engine.ACTS, there
        if name == self._spared:
            return
        if there:
            yield engine.UNAVAILABLE, there
        if there and not self.bounds.window_ms:
            # Under a window it comes to the same as no answer.
            yield engine.UNREADABLE, there
        yield engine.UNANSWERED, state
        if request and not state.acted:
            yield engine.REFUSES, state._replace(wire=without(state.wire, request))

    def _engine(self, state: State, name: str, life: Life) -> Iterator[tuple[str, State]]:
        if life.on != "ended" or self.guarded(state):
            # Of what is dead nothing is kept that could tell one death from another.
            dead = Life(on="ended", result=life.result, sends=life.sends, under=life.under, up=False)
            yield f"{name}'s engine crashes", told_apart(put(state, name, dead), window_ms=self.bounds.window_ms)
        if life.known_until < state.now + LEASE_MS and state.now < self._last_instant and not life.leaving:
            rows, known = self.store.act(acts.renewed, name, life.known_until, rows=state.rows, now=state.now)
            yield f"{name}'s keeper renews", put(state, name, life._replace(known_until=known))._replace(rows=rows)
        if self.bounds.closes and not life.leaving:
            at_work = int(life.on in {"calls", "answer"})
            rows, _ = self.store.act(acts.closed, name, at_work, rows=state.rows, now=state.now)
            leaving = put(state, name, life._replace(leaving=True))._replace(rows=rows)
            yield f"{name}'s engine closes", self._judged(state, leaving, Told("world", name))

    def _world(self, state: State) -> Iterator[tuple[str, State]]:
        if state.now < self._last_instant and state.lives[-1][0] != self._spared:
            yield "the clock passes a lease", state._replace(now=state.now + TICK_MS)
        for number, (name, batch) in enumerate(state.adrift):
            rows, _ = self.store.act(committed, batch, rows=state.rows, now=state.now)
            landed = state._replace(rows=rows, adrift=state.adrift[:number] + state.adrift[number + 1 :])
            yield f"{name}'s {batch[-1][0]} is applied late", self._judged(state, landed, Told("own", name))
        for request in state.wire:
            if there := arrived(state, request, window_ms=self.bounds.window_ms):
                yield f"{request.name}'s request arrives", told_apart(there, window_ms=self.bounds.window_ms)
        if self.bounds.serve_dies and state.serve:
            yield "serve dies", state._replace(serve=False)

    def _takeover(self, state: State) -> Iterator[tuple[str, State]]:
        # What is opened once the owner is retired is another execution, of which nothing here is asked.
        if self.settled(state) or state.lives[-1][0] == self._spared:
            return
        known = {name for name, _ in state.lives}
        waiting = [name for name in self.bounds.attempts if name not in known]
        # At the last instant a lease would run for ever: then only the spared attempt comes.
        for following in waiting[:1] if state.now < self._last_instant else waiting[-1:]:
            rows, taken = self.store.act(acts.opened, following, rows=state.rows, now=state.now)
            if taken:
                life = (following, Life(known_until=state.now + LEASE_MS))
                after = state._replace(rows=rows, lives=(*state.lives, life))
                yield f"{following} takes the owner", self._judged(state, after, Told("takeover", following))

    def _operator(self, state: State) -> Iterator[tuple[str, State]]:
        """What an operator can truthfully say of the guard that stands, and does at once or after a wait."""
        if state.deciding:
            claim, batch = state.deciding
            yield "the operator decides otherwise", state._replace(deciding=None)
            if true(claim, state, at=self._called(state)):
                yield from self._by_hand(state, batch, "the operator releases at last")
            return
        if state.reconciled == self.bounds.reconciled or not self.guarded(state):
            return
        for claim, evidence, value in SAYINGS:
            _, batch = self.store.act(acts.decided, evidence, value, rows=state.rows, now=state.now)
            if batch and true(claim, state, at=self._called(state)):
                said = f"the operator says {evidence.replace(SENT_AS, 'KEY')}{' with a value' if value else ''}"
                if self.bounds.waits:
                    yield f"{said}, and waits", state._replace(deciding=(claim, batch))
                yield from self._by_hand(state, batch, said)

    def _called(self, state: State) -> str:
        """The destination that the guard which stands was admitted to; none where none does."""
        return "".join(row[_DESTINATION] for row in state.rows[self._guards])

    def _by_hand(self, state: State, batch: Any, said: str) -> Iterator[tuple[str, State]]:
        rows, done = self.store.act(committed, batch, rows=state.rows, now=state.now)
        if done:
            after = state._replace(rows=rows, reconciled=state.reconciled + 1, deciding=None)
            yield said, self._judged(state, after, Told("operator"))

    def _rewind(self, state: State) -> Iterator[tuple[str, State]]:
        rows, done = self.store.act(acts.rewound, rows=state.rows, now=state.now)
        if not done:
            return
        after = self._judged(state, state._replace(rows=rows, rewound=True), Told("rewind"))
        # The recorded work is given up lightly only where a refusal named that: elsewhere it is no way to the goal.
        if after.broken or NAMES_REWIND & {life.result for _, life in state.lives}:
            yield "the operator rewinds", after

    def _acted(self, state: State, label: str, act: Any, *arguments: Any) -> Iterator[tuple[str, State]]:
        rows, _ = self.store.act(act, *arguments, rows=state.rows, now=state.now)
        if rows is not state.rows:
            yield label, self._judged(state, state._replace(rows=rows), Told("world"))

    def _judged(self, before: State, after: State, told: Told) -> State:
        if after.broken or (before.rows is after.rows and not told.sent):
            return after
        key = (before.rows, after.rows, told, before.now)
        if key not in self._judgements:
            self._judgements[key] = judged(before.rows, after.rows, told, now=before.now)
        broken = self._judgements[key]
        return after._replace(broken=broken) if broken else after


def _destination(name: str, bounds: Bounds) -> Destination:
    called = bounds.destination(name)
    return Destination(called, f"https://{called}.example", dedup_window_ms=bounds.window_ms)
