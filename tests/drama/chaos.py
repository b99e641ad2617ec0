"""A drama by chance: one scope, engines that are killed and stopped, answers that are lost, time that passes.

Whatever chance does, its operator says nothing but what is so: a receipt where the destination executed, its absence
where it did not and nothing is on the way any more.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from engine.shapes import RunStatus
from tests.drama.destination import Manner
from tests.drama.world import HOUR_MS, LATER_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.guards.guard import Standing
    from tests.drama.destination import Destination
    from tests.drama.stage import Actor
    from tests.drama.world import World

MANNERS: Final = (None, *Manner, *Manner, 503, 429, 402)
POINTS: Final = (None, None, None, "before", "answered", "recorded")
STOPS: Final = (None, None, "before", "answered")
ROUNDS: Final = 8
"""After so many engines and operators at the latest everything has ended."""


@dataclass
class Chaos:
    """One scope at one destination, played by the draws of `seed`."""

    world: World
    destination: str
    seed: int
    happened: Counter[str] = field(default_factory=Counter)
    story: list[str] = field(default_factory=list)
    out: Actor | None = None
    stopped: list[Actor] = field(default_factory=list)
    dead: list[Actor] = field(default_factory=list)
    recorded: bool = False
    rewound: bool = False
    ending: str = ""

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.scope = f"{self.destination}-{self.seed}"
        self.shop: Destination = self.world.shops[self.destination]

    def play(self, acts: int) -> str:
        """So many acts, and then whatever it takes to end: how it ended."""
        for _ in range(acts):
            if self.recorded and not self.stopped and not self.out:
                break
            self.chance.choice(self._moves())()
        self._settle_down()
        for _ in range(ROUNDS):
            if self._ended():
                break
        assert self.ending, f"nothing ends it: {self.story}"
        self._check_end()
        return self.ending

    def _moves(self) -> list[Callable[[], None]]:
        moves = [self._begins, self._begins, self._begins, self._lapses, self._lapses, self._operator]
        if self.out:
            moves += [self._killed, self._stalls, self._answered]
        if self.stopped:
            moves += [self._continues, self._killed_where_it_stands, self._overtaken, self._overtaken]
        if self.dead:
            moves += [self._reaped, self._reaped]
        if not self.shop.kept:
            moves.append(self._window_passes)
        return moves

    def _begins(self) -> None:
        """An engine comes; what had to keep it out is still there when it has gone."""
        before = self.world.guard(self.scope)
        manner = self.chance.choice(MANNERS)
        self.shop.manners[:] = [manner] if manner and not self.out else []
        stops = self.chance.choice(STOPS)
        engine = self.world.start(
            self.scope,
            self.destination,
            dies=self.chance.choice(POINTS),
            stops=stops,
            attempts=self.chance.choice((1, 1, 2)),
        )
        became = self._became(engine)
        self._note(f"an engine ({manner}, {stops}) {became}")
        self._check_kept_out(before, engine)
        if became == "kept":
            self.out = engine
        elif became == "stopped":
            self.stopped.append(engine)
        else:
            self._buried(engine)

    def _became(self, engine: Actor) -> str:
        self.shop.hears = engine.events.put
        try:
            return engine.passes()
        finally:
            self.shop.hears = None
            self.shop.manners.clear()

    def _check_kept_out(self, before: Standing | None, engine: Actor) -> None:
        if before is None:
            return
        after = self.world.guard(self.scope)
        now = self.world.clock.now()
        covered = before.guard.covered_until is not None and before.now < before.guard.covered_until
        if before.holder_exited_at is not None and covered and before.lease_until <= now:
            self.happened["a replay was possible"] += 1
            return
        assert after is not None, self.story
        assert after.guard.token == before.guard.token, self.story
        assert engine.code == 75, (engine.told, self.story)
        assert engine.told["error"] in {"ExecutionLive", "ExecutionTransferBlocked"}, (engine.told, self.story)
        self.happened[engine.told["error"]] += 1

    def _killed(self) -> None:
        assert self.out
        self.out.kill()
        self._note("killed while its request was out")
        self._buried(self.out)
        self.out = None
        if self.chance.random() < 0.5:
            self.shop.let_go()

    def _stalls(self) -> None:
        assert self.out
        self.out.signal(signal.SIGSTOP)
        self.out.until("stopped")
        self._note("stopped while its request was out")
        self.stopped.append(self.out)
        self.out = None

    def _answered(self) -> None:
        """Every request that is kept is let go, and whoever waits for the answer has it."""
        self.shop.let_go()
        if self.out:
            engine, self.out = self.out, None
            self._note(f"answered, and {self._goes_on(engine)}")

    def _overtaken(self) -> None:
        """Whoever stands still is let go by the operator, where that may be, and passed by another engine."""
        engine = self.chance.choice(self.stopped)
        before = self.world.guard(self.scope)
        self._lapses()
        self._operator()
        over = before is not None and before.guard.holder == engine.told["holder"] and not self.world.guard(self.scope)
        self._begins()
        self._continues(engine)
        self.happened["overtaken after its release"] += over
        assert not (over and engine.code == 0), f"it went on after its guard was released: {self.story}"

    def _continues(self, engine: Actor | None = None) -> None:
        engine = engine or self.chance.choice(self.stopped)
        self.stopped.remove(engine)
        self._answered()
        engine.signal(signal.SIGCONT)
        self._note(f"continued, and {self._goes_on(engine)}")

    def _killed_where_it_stands(self) -> None:
        engine = self.stopped.pop(self.chance.randrange(len(self.stopped)))
        engine.kill()
        self._note("killed where it was stopped")
        self._buried(engine)

    def _goes_on(self, engine: Actor) -> str:
        became = engine.passes()
        if became == "stopped":
            self.stopped.append(engine)
        else:
            self._buried(engine)
        return f"{became} {engine.told.get('error', '')}"

    def _buried(self, engine: Actor) -> None:
        assert engine.code is not None
        assert engine.code in {0, 1, 75, 130, -signal.SIGKILL}, (engine.code, self.world.troupe.complaints())
        self.recorded = self.recorded or engine.code == 0
        if engine.code < 0 and "holder" in engine.told:
            self.dead.append(engine)

    def _reaped(self) -> None:
        self.world.reap(self.dead.pop(self.chance.randrange(len(self.dead))))
        self._note("an exit was recorded")

    def _lapses(self) -> None:
        self.world.advance(LATER_MS)
        self._note("leases lapsed")

    def _window_passes(self) -> None:
        self.world.advance(HOUR_MS)
        self._note("the window passed")

    def _operator(self) -> None:
        """An operator gives evidence where a guard stands, and is refused while its callback may be sending."""
        standing = self.world.guard(self.scope)
        if standing is None or (evidence := self._truth(standing)) is None:
            return
        text, value = evidence
        answer = self.world.reconcile(standing.guard, text, value=value, laptop=False)
        if standing.holder_exited_at is None and standing.lease_until > self.world.clock.now():
            assert answer.error == "ExecutionGuardHeld", (answer, self.story)
            assert self.world.guard(self.scope) is not None
            self.happened["ExecutionGuardHeld"] += 1
        elif answer.code:
            assert answer.error == "ExecutionGuardUnknown", (answer, self.story)  # released while we looked
        else:
            self.happened[f"released by {text.split(':')[0]}"] += 1
        self._note(f"the operator said {text}: {answer.code}")

    def _truth(self, standing: Standing) -> tuple[str, dict[str, str] | None] | None:
        """What an operator can say of the guard; None where they have to wait for what is on its way."""
        guard = standing.guard
        if standing.evidence_class == "replay-safe" and self.chance.random() < 0.5:
            return f"idempotency:{guard.idempotency_key}", None
        if done := self.shop.under(guard.idempotency_key):
            value = {"charge": done.receipt} if self.chance.random() < 0.5 else None
            return f"receipt:{guard.idempotency_key}:{done.receipt}", value
        return None if self.shop.kept else (f"receipt:{guard.idempotency_key}:absent", None)

    def _settle_down(self) -> None:
        """Nothing is out any more, and whoever still holds something holds it no longer by a lease."""
        self._answered()
        while self.stopped:
            self._continues()
        for engine in self.dead:
            if self.chance.random() < 0.5:
                self.world.reap(engine)
        self.world.advance()

    def _ended(self) -> bool:
        """One more engine, and the verb that is named where it does not succeed."""
        engine = self.world.play(self.scope, self.destination)
        error = engine.told.get("error")
        self._note(f"at the end {engine.code} {error}")
        if engine.code == 0:
            self.ending = "recorded after a rewind" if self.rewound else "recorded"
            *_, executed = self.shop.of(f"/{self.scope}")
            assert engine.told["value"] == {"charge": executed.receipt}, self.story
        elif error == "ExecutionTransferBlocked":
            assert "storage guard" in engine.told["remedy"]
            self._operator()
        elif error == "EffectSettled":
            self._supply(engine)
        elif error == "EffectUnsettled":
            self._rewind(engine)
        else:
            self.world.advance()
        return bool(self.ending)

    def _supply(self, engine: Actor) -> None:
        """Give the value that the refusal asks for, as it says."""
        words = str(engine.told["remedy"]).split()
        token, receipt = (words[words.index(option) + 1] for option in ("--token", "--evidence"))
        [executed] = self.shop.of(f"/{self.scope}")
        answer = self.world.supply(token, receipt, value={"charge": executed.receipt})
        assert answer.code == 0, (answer, self.story)
        self.happened["a value was supplied"] += 1

    def _rewind(self, engine: Actor) -> None:
        """Give up what nobody can tell of, as the refusal says: the charge is another one from here on."""
        identity = engine.told["facts"]["execution_id"]
        assert f"contextful run rewind {identity} --reason" in engine.told["remedy"], self.story
        answer = self.world.contextful("run", "rewind", identity, "--reason", "by chance", "--force")
        assert answer.code == 0, (answer, self.story)
        self.rewound = True

    def _check_end(self) -> None:
        """One execution, whatever happened, and one more where it was given up; nothing that seems to be at work."""
        executed = self.shop.of(f"/{self.scope}")
        assert len({each.key for each in executed}) == len(executed) <= 1 + self.rewound, self.story
        self.world.play(self.scope, self.destination)  # an engine that begins closes what others left
        ended = [each.status for each in self.world.runs(self.scope)]
        assert {RunStatus.RUNNING, RunStatus.PENDING}.isdisjoint(ended), (ended, self.story)
        assert self.world.guard(self.scope) is None, self.story
        assert len(self.shop.of(f"/{self.scope}")) == len(executed), self.story

    def _note(self, text: str) -> None:
        self.story.append(text)
