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
from hypothesis.stateful import initialize, invariant, precondition, rule

from engine.errors import ContextfulError, ExecutionGuardEvidenceMismatch, ExecutionGuardHeld, StepFailed
from engine.guards.guard import Guard
from engine.guards.rules import Window
from tests.clocks import SettableClock
from tests.guarded import desk, receipt, recorded_bytes, replayable, standing
from tests.guarded_walk import Walk
from tests.guarded_world import STARTS, TIMES, How, Life, Met, World, truths
from tests.stores import LEASE, Store

if TYPE_CHECKING:
    from collections.abc import Callable

SCOPES = ("first", "second")
ENGINES = 3


class Machine(Walk):
    """One store, up to three engines at a time."""

    new_store: Callable[[SettableClock], Store]

    @initialize(start=st.sampled_from(STARTS))
    def begin(self, start: tuple[int | None, Met]) -> None:
        window, met = start
        self.clock = SettableClock()
        self.store = type(self).new_store(self.clock)
        self.world = World(self.clock.now, window)
        self.lives = [Life(self.store, self.world)]
        self.buried = []
        self.seen = {}
        self.returned = set()
        self.replayed = set()
        self._meet(met, SCOPES[0])

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
