"""The tables of guards, checked where nothing of the store is late: engines open again and retry as clocks turn.

Each entry that lets somebody do something, or keeps somebody from it, has its twin: it says otherwise, and the explorer
must find out what for it says what it says.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.guards import rules
from engine.guards.rules import (
    Admissible,
    Ending,
    EvidenceClass,
    Holder,
    Kind,
    Lease,
    Mark,
    Settling,
    Transfer,
    Window,
    admissible,
)
from tests.model.explorer import Counterexample, explore
from tests.model.guards_table import TableModel, World
from tests.scale import scale

NONE = {"window": None, "ticks": scale(short=1, full=2), "attempts": 2, "sends": 2}
ONE = {"window": 1, "ticks": 2, "attempts": 1, "sends": scale(short=1, full=2)}
OTHER = NONE | {"window": 1, "ticks": 1, "sends": scale(short=1, full=2), "elsewhere": scale(short="C", full="B")}
TWO = {"window": 2, "ticks": 3, "attempts": 1, "sends": 2}

SMALL = {"window": None, "ticks": 1, "attempts": 1, "sends": 2}
PASSING = {"window": 1, "ticks": 2, "attempts": 1, "sends": 2}


def told(bounds: dict[str, Any]) -> str:
    return f"window {bounds['window']}{', another destination' * ('elsewhere' in bounds)}"


@pytest.mark.clause(
    "run.callback-guard.replay",
    "run.callback-guard.manual",
    "run.callback-guard.live-holder",
    "run.callback-guard.window",
    "run.callback-guard.blocked",
    "run.callback-guard.container-stop",
)
@pytest.mark.parametrize("bounds", [NONE, ONE, OTHER, *scale(short=[], full=[TWO])], ids=told)
def test_the_tables_let_no_effect_be_sent_twice_and_every_scope_be_freed(bounds, record_property):
    model = TableModel(**bounds)

    explored = explore(model.initial(), model.steps, invariants=[broken], goal=model.settled)

    record_property("explored", f"{explored} ({bounds})")
    assert explored.states > 10_000


def way(holder: Holder, lease: Lease, window: Window, **changed: Any) -> Any:
    """A patch that changes what the table says of a guard that stands so."""
    key = (holder, lease, window)
    return lambda patch: patch.setitem(rules.WAYS, key, replace(rules.WAYS[key], **changed))


def said(name: str, function: Any) -> Any:
    return lambda patch: patch.setattr(rules, name, function)


def endings(covered: bool, mark: Mark, how: Ending = Ending.UNANSWERED) -> Any:
    return lambda patch: patch.setitem(rules.ENDINGS, (how, covered), Settling(releases=True, mark=mark))


def doubtless(*, doubts: int, receipt: str | None, covered: bool, elsewhere: bool) -> Admissible:
    return Admissible.SEND if covered or receipt is None else Admissible.SETTLED


def receiptless(*, doubts: int, receipt: str | None, covered: bool, elsewhere: bool) -> Admissible:
    return Admissible.SEND if covered or receipt or not doubts else Admissible.UNSETTLED


def anywhere(*, doubts: int, receipt: str | None, covered: bool, elsewhere: bool) -> Admissible:
    return admissible(doubts=doubts, receipt=receipt, covered=covered, elsewhere=False)


def closed(*, covered_until: int | None, now: int) -> Window:
    if covered_until is None:
        return Window.NONE
    return Window.COVERS if now <= covered_until else Window.PASSED


REPLAYS = {"replay": True, "transfer": Transfer.REPLAYS}
TWICE, STUCK = "acted twice", "the goal is out of reach"
UNGUARDED, UNCOVERED = "sends unguarded", "that no window covers"

TWINS = [
    pytest.param(SMALL, way(Holder.GONE, Lease.LAPSED, Window.NONE, **REPLAYS), UNCOVERED, id="no window is replayed"),
    pytest.param(
        PASSING, way(Holder.GONE, Lease.LAPSED, Window.PASSED, **REPLAYS), UNCOVERED, id="a passed one is replayed"
    ),
    pytest.param(
        PASSING | {"window": 2},
        way(Holder.PRESENT, Lease.LAPSED, Window.COVERS, **REPLAYS),
        "whose holder may live",
        id="a lapsed lease alone is replayed",
    ),
    pytest.param(
        SMALL,
        way(Holder.PRESENT, Lease.RUNS, Window.NONE, manual=True),
        UNGUARDED,
        id="an operator releases a guard that is held",
    ),
    pytest.param(
        SMALL, way(Holder.PRESENT, Lease.LAPSED, Window.NONE, manual=False), STUCK, id="nobody releases a stalled one"
    ),
    pytest.param(
        SMALL, way(Holder.GONE, Lease.LAPSED, Window.NONE, manual=False), STUCK, id="nobody releases one left behind"
    ),
    pytest.param(SMALL, endings(False, Mark.CLEARED), TWICE, id="G14 no answer clears the mark"),
    pytest.param(PASSING, endings(True, Mark.CLEARED), TWICE, id="G2 no answer under a window clears the mark"),
    pytest.param(PASSING, said("admissible", doubtless), TWICE, id="G2 a doubt is no matter"),
    pytest.param(SMALL, said("admissible", receiptless), TWICE, id="G12 a receipt is no matter"),
    pytest.param(
        OTHER, said("admissible", anywhere), "two destinations have acted", id="G2 what is covered is so anywhere"
    ),
    pytest.param(SMALL, said("answers", lambda *_, **__: True), TWICE, id="G2 every status answers"),
    pytest.param(
        SMALL, said("ending", lambda *_, **__: Ending.REFUSED), TWICE, id="G15 what has acted counts as refused"
    ),
    # The destination forgets at that very instant.
    pytest.param(PASSING, said("window", closed), UNCOVERED, id="the window covers its last instant"),
]


@pytest.mark.clause(
    "run.callback-guard.replay",
    "run.callback-guard.manual",
    "run.callback-guard.live-holder",
    "run.callback-guard.window",
    "run.callback-guard.holder-gone",
)
@pytest.mark.parametrize(("bounds", "twin", "found"), TWINS)
def test_an_entry_of_the_tables_that_says_otherwise_is_found_out(bounds, twin, found, monkeypatch):
    twin(monkeypatch)
    model = TableModel(**bounds)

    with pytest.raises(Counterexample) as counterexample:
        explore(model.initial(), model.steps, invariants=[broken], goal=model.settled)

    assert found in counterexample.value.what


@pytest.mark.clause("run.callback-guard.class", "run.callback-guard.blocked")
def test_a_transfer_is_blocked_for_an_operator_just_where_no_lease_runs_and_nothing_may_be_replayed():
    for (holder, lease, window), ways in rules.WAYS.items():
        replays = (holder, lease, window) == (Holder.GONE, Lease.LAPSED, Window.COVERS)
        assert ways.replay is replays
        assert (ways.transfer is Transfer.REPLAYS) is replays
        assert (ways.transfer is Transfer.ALIVE) is (lease is Lease.RUNS)
        assert ways.manual is (lease is Lease.LAPSED or holder is Holder.GONE)
        assert ways.release is (holder is Holder.PRESENT)
        for kind in Kind:
            assert (rules.CLASSES[window, kind] is EvidenceClass.REPLAY_SAFE) is (window is Window.COVERS)


def broken(world: World) -> str | None:
    return world.broken
