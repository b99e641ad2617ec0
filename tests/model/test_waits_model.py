"""Engines that open, park, retire and lose one owner, batch by batch in every order: whatever waits has a waker.

An engine that opens a waiting owner goes on with the attempt that waits; a handle that an engine kept from before, by
the same name, moves nothing any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from engine.clock import Chance
from engine.errors import ExecutionSuperseded
from engine.execution.keeper import LEASE_MS
from engine.journal import SqlJournal
from engine.local.blobs import SqliteBlobs
from engine.owners import Owners
from engine.runs import RunRow, Runs, opening, resuming
from engine.shapes import Attempt, RunStatus
from engine.sql import call
from tests.model.explorer import Counterexample, explore
from tests.model.replay import Store, without

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.model.replay import Mutations, Rows

SCOPE, EXECUTION = "job:score", "x-1"
TABLES = ("meta", "holders", "owners", "leases", "guards", "runs", "journal", "blobs", "awakeables")


class State(NamedTuple):
    """The rows, the instant, how often each engine has opened, and the run each believes to hold."""

    rows: Rows
    now: int
    opens: tuple[int, ...]
    handles: tuple[str | None, ...]
    broken: str | None = None


class WaitsModel:
    """`engines` may each open the owner `opens` times; leases lapse as often as there are ticks."""

    def __init__(self, *, engines: int, opens: int, ticks: int, mutations: Mutations | None = None) -> None:
        self.store = Store(*TABLES, mutations=mutations)
        self._engines, self._opens, self._ticks = range(engines), opens, ticks

    def initial(self) -> State:
        return State(self.store.empty, 0, (0,) * len(self._engines), (None,) * len(self._engines))

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Every batch of every engine, and the clock."""
        if state.broken:
            return
        for number in self._engines:
            if state.opens[number] < self._opens and not self.retired(state):
                yield from self._opened(state, number)
            if (run_id := state.handles[number]) is not None:
                yield from self._moved(state, number, run_id)
        rows, reaped = self.store.act(_reap, rows=state.rows, now=state.now)
        if reaped:
            yield "a start reaps", state._replace(rows=rows)
        if state.now < self._ticks * (LEASE_MS + 1):
            yield "the clock passes a lease", state._replace(now=state.now + LEASE_MS + 1)

    def owner(self, state: State) -> dict[str, Any]:
        """The owner's row, empty while there is none."""
        rows = state.rows[self.store.tables.index("owners")]
        if not rows:
            return {}
        names = ("attempt", "holder", "lease_end", "wake_at")
        return dict(zip(names, rows[0][6:10], strict=True))

    def runs(self, state: State) -> dict[str, str]:
        return {row[0]: row[4] for row in state.rows[self.store.tables.index("runs")]}

    def retired(self, state: State) -> bool:
        """Whether the execution is over: it was opened once and its owner is gone."""
        return any(state.opens) and not self.owner(state)

    def _opened(self, state: State, number: int) -> Iterator[tuple[str, State]]:
        run_id = f"r-{number}.{state.opens[number]}"
        waiting = {name for name, status in self.runs(state).items() if status == RunStatus.WAITING}
        rows, held = self.store.act(_open, number, run_id, rows=state.rows, now=state.now)
        if held is None:
            return
        broken = f"{held} opens while {waiting} waits" if waiting and held not in waiting else None
        opens, handles = _set(state.opens, number, state.opens[number] + 1), _set(state.handles, number, held)
        yield f"engine {number} opens {held}", State(rows, state.now, opens, handles, broken)

    def _moved(self, state: State, number: int, run_id: str) -> Iterator[tuple[str, State]]:
        owner = self.owner(state)
        ours = (owner.get("attempt"), owner.get("holder")) == (run_id, f"h-{number}")
        for verb in (_park, _retire):
            rows, moved = self.store.act(verb, number, run_id, rows=state.rows, now=state.now)
            broken = None if ours or rows == state.rows else f"engine {number} moves what is not its own"
            # One that parks keeps its handle: a thread it left behind does not know.
            gone = _set(state.handles, number, None) if moved and verb is _retire else state.handles
            if moved or broken:
                yield (
                    f"engine {number} {verb.__name__[1:]}s {run_id}",
                    State(rows, state.now, state.opens, gone, broken),
                )


def unwoken(model: WaitsModel):
    """What waits is its owner's attempt, free to be taken and due at an instant; what is held is at work."""

    def check(state: State) -> str | None:
        owner = model.owner(state)
        for run_id, status in model.runs(state).items():
            held = owner.get("attempt") == run_id
            if status == RunStatus.WAITING and not (held and owner["holder"] is None and owner["wake_at"]):
                return f"{run_id} waits and nothing wakes it"
            if held and owner["holder"] is not None and status != RunStatus.RUNNING:
                return f"{run_id} holds the owner and is {status}"
        return None

    return check


def judged(state: State) -> str | None:
    return state.broken


@pytest.mark.clause("run.retry.waiting-state", "run.retry.wake", "run.retry.resume-at")
def test_whatever_waits_has_a_waker_and_goes_on_as_itself(record_property):
    model = WaitsModel(engines=2, opens=2, ticks=2)

    explored = explore(model.initial(), model.steps, invariants=[judged, kept(model), unwoken(model)])

    record_property("explored", str(explored))
    assert explored.states > 200


@pytest.mark.clause("run.retry.waiting-state", "run.journal.current-owner")
@pytest.mark.parametrize(
    ("mutations", "found"),
    [
        pytest.param({"take_owner": without("r.status = 'waiting'", "0")}, "waits", id="it goes on by another name"),
        pytest.param(
            {"require_attempt": without(" AND holder = :holder")}, "moves what is not its own", id="any life moves it"
        ),
        pytest.param(
            {"resume_run": without("status = 'running'", "status = 'waiting'")}, "waits", id="its row stays waiting"
        ),
        pytest.param({"park_owner": without("wake_at = :wake_at", "wake_at = NULL")}, "waits", id="without an instant"),
        pytest.param(
            {
                "orphaned_runs": without("r.status = 'running'", "r.status IN ('running', 'waiting')"),
                "reap_run": without("AND status = 'running'"),
            },
            "was reaped while its owner waits",
            id="a start reaps what waits",
        ),
    ],
)
def test_a_statement_without_its_condition_is_found_out(mutations, found):
    model = WaitsModel(engines=2, opens=2, ticks=1, mutations=mutations)

    with pytest.raises(Counterexample) as counterexample:
        explore(model.initial(), model.steps, invariants=[judged, kept(model), unwoken(model)])

    assert found in counterexample.value.what


def kept(model: WaitsModel):
    """What was parked is never ended but by whoever goes on with it."""

    def check(state: State) -> str | None:
        owner = model.owner(state)
        for run_id, status in model.runs(state).items():
            if status == RunStatus.PARTIAL_FAILURE and owner.get("wake_at") and not owner["attempt"]:
                return f"{run_id} was reaped while its owner waits"
        return None

    return check


def _open(store: Any, number: int, run_id: str) -> str | None:
    """The batch of `Owners.open`; the run that now holds the owner, if this engine took it."""
    holder = f"h-{number}"
    pinned = {"scope": SCOPE, "pins": "{}", "plan_ref": "p", "input_hash": None}
    claimed = {"run_id": run_id, "holder": holder, "execution_id": EXECUTION}
    run = RunRow(run_id, RunStatus.RUNNING, 0)
    store.run(call("register_holder", holder=holder, pid=1, boot_id="b", lease_ms=LEASE_MS))
    opened, taken, _, woken = store.run(
        call("open_owner", **pinned, **claimed),
        call("take_owner", **pinned, **claimed),
        opening(run, scope=SCOPE, holder=holder),
        resuming(run, scope=SCOPE, holder=holder),
    )
    if not (opened or taken):
        return None
    ((held,),) = woken or opened or taken
    return str(held)


def _park(store: Any, number: int, run_id: str) -> bool:
    row = RunRow(run_id, RunStatus.WAITING, 0, next_attempt_at=1)
    return _done(lambda: _owners(store).park(_attempt(number, run_id), run=row, wake_at=1))


def _retire(store: Any, number: int, run_id: str) -> bool:
    row = RunRow(run_id, RunStatus.SUCCESS, 0)
    return _done(lambda: _owners(store).retire(_attempt(number, run_id), run=row))


def _reap(store: Any) -> int:
    return len(Runs(store).reap())


def _owners(store: Any) -> Owners:
    return Owners(store, SqlJournal(store, SqliteBlobs(store)), Chance.seeded(0))


def _attempt(number: int, run_id: str) -> Attempt:
    return Attempt(SCOPE, EXECUTION, run_id, f"h-{number}")


def _done(verb: Any) -> bool:
    try:
        verb()
    except ExecutionSuperseded:
        return False
    return True


def _set(values: tuple[Any, ...], number: int, value: Any) -> tuple[Any, ...]:
    return (*values[:number], value, *values[number + 1 :])
