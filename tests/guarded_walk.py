"""The words of a walk: what engines have open and out, and how an act of theirs or of an operator is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis.stateful import RuleBasedStateMachine

from engine.errors import (
    ContextfulError,
    EffectOverdue,
    ExecutionLive,
    ExecutionSuperseded,
    ExecutionTransferBlocked,
    StepFailed,
)
from tests.guarded import desk, standing
from tests.guarded_world import STUCK, How, Life, Met, Out, World, truths, unstick
from tests.stores import LEASE, Store

if TYPE_CHECKING:
    from engine.guards.guard import Guard, Standing
    from tests.clocks import SettableClock


class Walk(RuleBasedStateMachine):
    """One store, the engines that live on it, and what was seen of its guards."""

    clock: SettableClock
    store: Store
    world: World
    lives: list[Life]
    buried: list[Life]
    seen: dict[str, Guard]
    returned: set[str]
    replayed: set[str]

    @property
    def alive(self) -> list[Life]:
        return [life for life in self.lives if not life.dead]

    def _standing(self) -> list[Standing]:
        """What stands, in an order that a replayed example finds again: random tokens break the ties of instants."""
        return sorted(standing(self.store), key=lambda each: each.guard.scope)

    def _idle(self) -> list[tuple[Life, str]]:
        return [(life, scope) for life in self.alive for scope in life.open if scope not in life.out]

    def _out(self) -> list[tuple[Life, str]]:
        return [(life, scope) for life in self.alive for scope in life.out]

    def _open(self, life: Life, scope: str) -> bool:
        before = {each.guard.token: each for each in standing(self.store)}
        try:
            life.open[scope] = self.store.open(scope, engine=life.engine)
        except (ExecutionLive, ExecutionTransferBlocked):
            assert {each.guard.token for each in standing(self.store)} == before.keys()
            return False
        gone = before.keys() - {each.guard.token for each in standing(self.store)}
        assert all(before[token].ways.replay for token in gone)
        self.replayed |= gone
        return True

    def _meet(self, met: Met, scope: str) -> None:
        """Bring about what the walk begins with, as far as the window lets it."""
        if met is Met.NOTHING:
            return
        (life,) = self.lives
        self._open(life, scope)
        life.send(scope)
        self._go_on(life, scope, How.LOST_AFTER)
        if met in {Met.AGAIN, Met.LATE} and self._open(life, scope):
            life.send(scope)
        if met in {Met.FORGOTTEN, Met.LATE}:
            self.clock.advance(self.world.window or 0)
            life.renew()

    def _go_on(self, life: Life, scope: str, how: How) -> None:
        out = life.out.pop(scope)
        tokens = [each.guard.token for each in standing(self.store) if each.guard.attempt == out.execution.run_id]
        out.go_on(how)
        if out.died:
            life.die()
            return
        self.returned.update(tokens)
        self._after(life, scope, out)

    def _after(self, life: Life, scope: str, out: Out) -> None:
        """What a program does when its step has ended: it goes on, or leaves its block by what was raised."""
        assert not isinstance(out.raised, AssertionError), out.raised
        if out.raised is not None:
            assert isinstance(out.raised, ContextfulError), repr(out.raised)
            self._close(life, scope, out.raised)

    def _close(self, life: Life, scope: str, failure: ContextfulError | None) -> None:
        execution = life.open.pop(scope)
        try:
            execution.close(failure=failure)
        except ExecutionSuperseded:
            # Its lease had lapsed: it was closed as an orphan, or another attempt has its owner.
            owner = self.store.owner(scope)
            assert owner is None or owner.attempt != execution.run_id
        except ExecutionTransferBlocked:
            assert standing(self.store)

    def _bury(self, life: Life) -> None:
        self.lives.remove(life)
        self.buried.append(life)  # kept: nothing finalizes what a dead process had open

    def _reconcile(self, found: Standing, evidence: str, value: bytes | None) -> None:
        desk(self.store).reconcile(found.guard.token, evidence=evidence, operator="ops", value=value)

    def _ends(self, scope: str) -> None:
        """Bring the step of `scope` to a recorded value, by whatever is asked for on the way."""
        for _ in range(6):
            life = Life(self.store, self.world)
            if not self._open(life, scope):
                for found in standing(self.store):
                    self._reconcile(found, *truths(self.world, found)[0])
                continue
            out = life.send(scope)
            if not out.ended:
                out.go_on(How.RETURNS)
            if out.raised is None:
                life.open[scope].close()
                return
            assert isinstance(out.raised, (*STUCK, StepFailed)), repr(out.raised)
            life.open[scope].close(failure=out.raised)
            if isinstance(out.raised, StepFailed):
                # Too late in the window to send: its end is waited for, as a schedule would.
                assert isinstance(out.raised.failure, EffectOverdue), repr(out.raised)
                self.clock.advance(LEASE)
            else:
                unstick(self.store, out.raised)
        raise AssertionError(f"{scope} finds no end")
