"""Two engines and two fires, every interleaving of the engine's own code: a fire is moved by whoever holds it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest

from engine.execution.keeper import LEASE_MS
from engine.fires import Fires
from engine.shapes import FireState
from engine.sql import call
from tests.model.explorer import Counterexample, explore
from tests.model.replay import Store, without
from tests.scale import scale

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tests.model.replay import History, Mutations, Rows, Script

RIVALS = {"E1": "f", "E2": "f"}
"""Engines by the fire each is asked for: these two for one."""

STRANGERS = {"E1": "f", "E3": "g"}
"""The second finds what the first left."""


class State(NamedTuple):
    rows: Rows
    now: int
    engines: tuple[tuple[str, History, str], ...]
    broken: str | None = None


class FiresModel:
    def __init__(self, engines: Mapping[str, str], mutations: Mutations | None = None) -> None:
        self.store = Store("meta", "holders", "owners", "runs", "fires", mutations=mutations)
        self._programs = {name: partial(_fire, name, fire_id) for name, fire_id in engines.items()}

    def initial(self) -> State:
        rows, _ = self.store.act(_register, tuple(self._programs), rows=self.store.empty, now=0)
        return State(rows, 0, tuple((name, (), "start") for name in self._programs))

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Every turn of every engine; the clock passes a lease, and a keeper that slept renews its own."""
        if state.broken:
            return
        for name, history, on in state.engines:
            if on in {"returned", "raised"}:
                continue
            turn = self.store.turn(self._programs[name], history, state.rows, now=state.now, answer=None)
            engines = tuple((n, turn.history, turn.on) if n == name else (n, h, o) for n, h, o in state.engines)
            yield f"{name} {turn.did}", State(turn.rows, state.now, engines, self._judged(state, turn.rows, name))
            renewed, _ = self.store.act(_renew, name, rows=state.rows, now=state.now)
            yield f"{name}'s keeper renews", state._replace(rows=renewed)
        if state.now == 0:
            yield "the clock passes a lease", state._replace(now=LEASE_MS + 1)

    def _judged(self, state: State, after: Rows, name: str) -> str | None:
        """Whoever moves a running fire holds it, or its holder's lease has lapsed."""
        holders, fires = (self.store.tables.index(table) for table in ("holders", "fires"))
        leases = {holder[0]: holder[4] for holder in state.rows[holders]}
        for fire in state.rows[fires]:
            held = fire[2] == FireState.RUNNING and fire[3] != name and leases[fire[3]] > state.now
            if held and fire not in after[fires]:
                return f"{name} moves {fire[0]}, which {fire[3]} holds"
        return None


@pytest.mark.clause("run.record.owner-lease")
@pytest.mark.parametrize(
    "engines",
    [
        pytest.param(RIVALS, id="asked for one fire"),
        pytest.param(scale(short=STRANGERS, full=RIVALS | STRANGERS), id="asked for two"),
    ],
)
def test_only_its_holder_moves_a_fire_while_its_lease_runs(engines, record_property):
    model = FiresModel(engines)

    explored = explore(model.initial(), model.steps, invariants=[lambda state: state.broken], goal=settled(model))

    record_property("explored", str(explored))


@pytest.mark.clause("run.record.owner-lease")
@pytest.mark.parametrize(
    ("engines", "statement", "mutation"),
    [
        (RIVALS, "move_fire", without("AND COALESCE(holder, '') = COALESCE(:held_by, '')")),
        (RIVALS, "adopt_fire", without("AND h.exited_at IS NULL AND h.expires_at > :now", "AND 1 = 0")),
        (STRANGERS, "fail_dead_fires", without("AND h.expires_at > :now", "AND 1 = 0")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_move_without_its_condition_is_found_out(engines, statement, mutation):
    model = FiresModel(engines, {statement: mutation})

    with pytest.raises(Counterexample, match=r"moves f, which E\d holds"):
        explore(model.initial(), model.steps, invariants=[lambda state: state.broken])


def settled(model: FiresModel):
    """Every fire that was asked for has ended."""
    fires = model.store.tables.index("fires")
    return lambda state: state.rows[fires] and all(fire[5] is not None for fire in state.rows[fires])


def _fire(holder: str, fire_id: str, script: Script) -> None:
    """What an engine does to fires in one firing."""
    fires = Fires(script)
    fires.fail_dead(but=fire_id)
    fires.request(fire_id, pipeline_id="p")
    if fires.begin(fire_id, holder=holder):
        script.ask("tables")
        fires.end(fire_id, FireState.COMPLETED, holder=holder)


def _register(store: Store, names: Iterable[str]) -> None:
    for name in names:
        store.run(call("register_holder", holder=name, pid=1, boot_id="b", lease_ms=LEASE_MS))


def _renew(store: Store, name: str) -> None:
    store.run(call("renew_holder", holder=name, lease_ms=LEASE_MS))
