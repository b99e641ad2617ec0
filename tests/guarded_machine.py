"""Whatever engines, a destination, time and an operator do in whatever order: nothing is sent twice, nothing is lost.

Engines open, send, stand still in the middle of it, go on, die and are reaped; the destination acts or does not and
answers or does not; the operator gives right evidence and wrong; leases lapse and windows pass. In the end everything
that is still open must have a way on. Every callback stands still on a thread of its own and one thing happens at a
time, so a failure replays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from engine.errors import (
    ContextfulError,
    EffectOverdue,
    ExecutionGuardEvidenceMismatch,
    ExecutionGuardHeld,
    ExecutionLive,
    ExecutionSuperseded,
    ExecutionTransferBlocked,
    StepFailed,
)
from engine.guards.guard import Guard, Standing
from engine.guards.rules import Window
from tests.clocks import SettableClock
from tests.guarded import desk, receipt, recorded_bytes, replayable, standing
from tests.guarded_world import STARTS, STUCK, TIMES, How, Life, Met, Out, World, truths, unstick
from tests.stores import LEASE, Store

if TYPE_CHECKING:
    from collections.abc import Callable


SCOPES = ("first", "second")
ENGINES = 3


class Machine(RuleBasedStateMachine):
    """One store, up to three engines at a time."""

    new_store: Callable[[SettableClock], Store]

    @initialize(start=st.sampled_from(STARTS))
    def begin(self, start: tuple[int | None, Met]) -> None:
        window, met = start
        self.clock = SettableClock()
        self.store = type(self).new_store(self.clock)
        self.world = World(self.clock.now, window)
        self.lives = [Life(self.store, self.world)]
        self.buried: list[Life] = []
        self.seen: dict[str, Guard] = {}
        self.returned: set[str] = set()
        self.replayed: set[str] = set()
        self._meet(met, SCOPES[0])

    @property
    def alive(self) -> list[Life]:
        return [life for life in self.lives if not life.dead]

    # What engines do.

    @precondition(lambda self: len(self.alive) < ENGINES)
    @rule()
    def start(self) -> None:
        self.lives.append(Life(self.store, self.world))

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), scope=st.sampled_from(SCOPES))
    def opens(self, data: st.DataObject, scope: str) -> None:
        life = data.draw(st.sampled_from(self.alive))
        if scope not in life.open:
            self._open(life, scope)

    @precondition(lambda self: self._idle())
    @rule(data=st.data())
    def sends(self, data: st.DataObject) -> None:
        life, scope = data.draw(st.sampled_from(self._idle()))
        out = life.send(scope)
        if out.ended:
            self._after(life, scope, out)

    @precondition(lambda self: self._out())
    @rule(data=st.data(), how=st.sampled_from(How))
    def goes_on(self, data: st.DataObject, how: How) -> None:
        self._go_on(*data.draw(st.sampled_from(self._out())), how)

    @precondition(lambda self: self._idle())
    @rule(data=st.data(), well=st.booleans())
    def closes(self, data: st.DataObject, well: bool) -> None:
        life, scope = data.draw(st.sampled_from(self._idle()))
        self._close(life, scope, None if well else StepFailed(step="send", failure=ContextfulError("no"), attempts=1))

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def renews(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.alive)).renew()

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def dies(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.alive)).die()

    @precondition(lambda self: any(life.dead for life in self.lives))
    @rule(data=st.data())
    def is_reaped(self, data: st.DataObject) -> None:
        life = data.draw(st.sampled_from([life for life in self.lives if life.dead]))
        life.reap()
        self._bury(life)

    @rule(milliseconds=st.sampled_from(TIMES), renewing=st.booleans())
    def time_passes(self, milliseconds: int, renewing: bool) -> None:
        """Engines stall meanwhile, or keep what they have."""
        self.clock.advance(milliseconds)
        for life in self.alive if renewing else ():
            life.renew()

    # What an operator does.

    @precondition(lambda self: bool(standing(self.store)))
    @rule(data=st.data())
    def reconciles_rightly(self, data: st.DataObject) -> None:
        found = data.draw(st.sampled_from(self._standing()))
        evidence, value = data.draw(st.sampled_from(truths(self.world, found)))
        before = len(desk(self.store).audits())
        try:
            self._reconcile(found, evidence, value)
        except ExecutionGuardHeld:
            assert not found.ways.manual
        else:
            assert found.ways.manual
        assert len(desk(self.store).audits()) == before + found.ways.manual

    @precondition(lambda self: bool(standing(self.store)))
    @rule(data=st.data())
    def reconciles_wrongly(self, data: st.DataObject) -> None:
        found = data.draw(st.sampled_from(self._standing()))
        before = desk(self.store).audits()
        wrong = [receipt(found.guard).replace(found.guard.idempotency_key, "0" * 32), "hearsay"]
        if found.guard.window(found.now) is not Window.COVERS:
            wrong.append(replayable(found.guard))
        with pytest.raises((ExecutionGuardEvidenceMismatch, ExecutionGuardHeld)):
            self._reconcile(found, data.draw(st.sampled_from(wrong)), None)
        assert standing(self.store)
        assert desk(self.store).audits() == before

    # What always holds.

    @invariant()
    def nothing_was_executed_twice(self) -> None:
        assert [key for key, instants in self.world.executed.items() if len(instants) > 1] == []
        assert self.world.late == []

    @invariant()
    def what_is_recorded_was_executed(self) -> None:
        for owner in self.store.here.owners.all():
            for entry in self.store.entries(owner.execution_id):
                key = entry.key.idempotency_key
                assert not entry.recorded or (
                    key in self.world.executed and entry.value == recorded_bytes(World.answer(key))
                )

    @invariant()
    def a_row_has_one_guard_and_stays_where_it_is(self) -> None:
        rows = [row for each in standing(self.store) for row in each.guard.protected]
        assert len(rows) == len(set(rows))
        for each in standing(self.store):
            owner = self.store.here.owners.read(each.guard.scope)
            assert owner is not None
            assert owner.execution_id == each.guard.execution_id
            assert owner.attempt in {each.guard.attempt, None}

    @invariant()
    def a_guard_goes_by_its_holders_return_a_replay_or_an_audited_release(self) -> None:
        found = {each.guard.token: each for each in standing(self.store)}
        audits = {audit.token: audit for audit in desk(self.store).audits()}
        for token in self.seen.keys() - found.keys():
            assert token in self.returned | self.replayed | audits.keys()
        self.seen.update({token: each.guard for token, each in found.items()})
        for token, audit in audits.items():
            assert token in self.seen
            assert Guard.of(audit.guard) == self.seen[token]
            assert (audit.operator, audit.evidence[:4]) in {("ops", "rece"), ("ops", "idem")}

    def teardown(self) -> None:
        """Whatever is left has a way on: somebody can always do something, and in the end every step is recorded."""
        if not hasattr(self, "store"):
            return
        try:
            for life, scope in self._out():  # whatever still stands still would send after all
                life.renew()
                self._go_on(life, scope, How.RETURNS)
            for life in self.alive:
                life.die()
            for life in [life for life in self.lives if not life.reaped]:
                life.reap()
            self.clock.advance(LEASE)
            for scope in SCOPES:
                self._ends(scope)
            self.nothing_was_executed_twice()
            assert standing(self.store) == []
        finally:
            self.store.close()

    # Words.

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
