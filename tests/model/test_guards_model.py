"""The guard protocol, checked on every interleaving of the engine's own code over the real statements.

Each of its rules has its twin: the rule is switched off in the statement, the trigger, the table or the function that
says it, and the explorer must find the hole that it closes, by a shortest way.
"""

from __future__ import annotations

from typing import Any

import pytest

from engine.execution import effects
from engine.execution.cover import Cover
from engine.execution.leases import Leases
from engine.guards import desk, rules
from engine.guards.admission import SqlAdmission
from tests.model import guards_mutations as mutations
from tests.model.explorer import Counterexample, explore
from tests.model.guards_model import GuardsModel
from tests.model.guards_world import Bounds, State
from tests.model.replay import without
from tests.scale import scale

WINDOWED = Bounds()
UNWINDOWED = Bounds(window_ms=None)

WORLDS = {
    "a window passes": WINDOWED._replace(ticks=2, tries=scale(short=1, full=2)),
    "answers of the store are lost": WINDOWED._replace(lost=1, closes=scale(short=False, full=True)),
    "an engine closes": WINDOWED._replace(closes=True, waits=scale(short=False, full=True)),
    "no window, answers of the store are lost": UNWINDOWED._replace(
        lost=1, closes=scale(short=False, full=True), tries=scale(short=1, full=2)
    ),
    "no window, serve dies": UNWINDOWED._replace(closes=True, serve_dies=True, lost=scale(short=0, full=1)),
    "no window, an operator waits": UNWINDOWED._replace(waits=True, ticks=scale(short=1, full=2)),
    "no window, a try is made again": UNWINDOWED._replace(tries=2),
    "no window, the step is asked for again": UNWINDOWED._replace(calls=2, lost=scale(short=0, full=2)),
    "a step names another destination": WINDOWED._replace(elsewhere="B", ticks=scale(short=1, full=2)),
    "a step names another destination and then the first": WINDOWED._replace(
        attempts="ABC", elsewhere="B", closes=scale(short=False, full=True)
    ),
    "no window, three attempts": UNWINDOWED._replace(attempts="ABC", ticks=scale(short=1, full=2), reconciled=2),
}


@pytest.mark.clause(
    "run.callback-guard.replay",
    "run.callback-guard.release",
    "run.callback-guard.acquire",
    "run.callback-guard.window",
    "run.callback-guard.holder-gone",
    "run.callback-guard.container-stop",
    "run.callback-guard.manual",
    "run.callback-guard.live-holder",
    "run.callback-guard.blocked",
    "run.journal.d1-guard",
)
@pytest.mark.parametrize("world", WORLDS)
def test_guards_hold_in_every_interleaving_and_every_scope_can_be_freed(world, record_property):
    bounds = WORLDS[world]
    model = GuardsModel(bounds)

    explored = explore(model.initial(), model.steps, invariants=[broken], goal=model.settled)

    record_property("explored", f"{explored} ({told(bounds)})")
    assert explored.states > 1_000


def rule(name: str, bounds: Bounds, *, statements: Any = None, patches: Any = (), found: str) -> Any:
    return pytest.param(bounds, statements or {}, patches, found, id=name)


RULES = [
    rule(
        "G1 the window counts from each admission",
        WINDOWED._replace(attempts="A", ticks=3, tries=2, reconciled=0),
        statements={
            "claim_admission": without("COALESCE(journal.admitted_at, excluded.admitted_at)", "excluded.admitted_at")
        },
        found="acted twice",
    ),
    rule(
        "G2 an entry in doubt is admitted after its window",
        WINDOWED._replace(ticks=2, reconciled=0),
        statements={"refuse_inadmissible": without("j.doubts > 0 OR ")},
        found="acted twice",
    ),
    rule(
        "G2 an entry in doubt is admitted to another destination",
        WINDOWED._replace(elsewhere="B", reconciled=0),
        statements={"refuse_inadmissible": without("j.destination <> :destination OR ")},
        found="two destinations have acted",
    ),
    rule(
        "G2 an entry keeps the first destination though it went to another since",
        WINDOWED._replace(attempts="ABC", elsewhere="B", reconciled=0),
        statements={"claim_admission": without("destination = excluded.destination, ")},
        found="two destinations have acted",
    ),
    rule(
        "G12 a receipt settles its entry at the destination that gave it alone",
        WINDOWED._replace(elsewhere="B"),
        statements={
            "refuse_inadmissible": without(
                "j.destination <> :destination", "j.destination <> :destination AND j.receipt IS NULL"
            )
        },
        found="two destinations have acted",
    ),
    rule(
        "G2 every status is an answer",
        UNWINDOWED,
        patches=[(rules, "answers", mutations.any_status_answers)],
        found="acted twice",
    ),
    rule(
        "G3 a request leaves without a look at lease and window",
        UNWINDOWED,
        patches=[(Cover, "check", mutations.unchecked)],
        found="which does not stand",
    ),
    rule(
        "G3 a request leaves without a look at the window",
        WINDOWED._replace(attempts="A", ticks=3, tries=2, reconciled=0),
        patches=[(Cover, "check", mutations.leased)],
        found="acted twice",
    ),
    rule(
        "G4 a guard is acquired under a lapsed lease",
        UNWINDOWED._replace(lost=1),
        statements={"acquire_guard": without(" AND own.lease_until > :now")},
        found="under a lease that has lapsed",
    ),
    rule(
        "G4 a guard is acquired for a holder that is gone",
        UNWINDOWED._replace(lost=1),
        statements={"acquire_guard": without(" AND h.exited_at IS NULL")},
        found="for a holder that is gone",
    ),
    rule(
        "G5 a record asks neither who holds the owner nor whose the claim is",
        UNWINDOWED,
        statements={"require_recordable": mutations.never, "record_entry": mutations.anybody_records},
        found="records, superseded",
    ),
    # That nobody takes a claim beside its holder is the steps' own model to find: here the guard's row keeps them off.
    rule(
        "G6 a claim of a superseded attempt is never taken over",
        UNWINDOWED,
        statements={"claim_admission": without(" OR journal.run_id <> excluded.run_id")},
        found="the goal is out of reach",
    ),
    rule(
        "G7 a lost answer is taken for a success",
        UNWINDOWED._replace(lost=1),
        patches=[(SqlAdmission, "_found", mutations.taken_for_success)],
        found="which does not stand",
    ),
    rule(
        "G7 a lost answer is taken for a failure",
        UNWINDOWED._replace(lost=1, calls=2),
        patches=[(SqlAdmission, "_remember", mutations.forgotten)],
        found="under which nothing left",
    ),
    # No statement of the engine replaces an owner by INSERT, and the model has no leases on keys: the triggers against
    # those are tried one by one where the guards' statements are.
    rule(
        "G8 a guarded owner is taken",
        UNWINDOWED,
        statements={"create_owners_guarded": mutations.untriggered},
        found="takes the owner past A1",
    ),
    rule(
        "G8 a guarded owner is retired",
        UNWINDOWED,
        statements={"create_owners_kept": mutations.untriggered},
        found="the owner is retired past A1",
    ),
    rule(
        "G9 an operator's release leaves the lease as it is",
        UNWINDOWED._replace(ticks=2),
        statements={"end_guarded_lease": mutations.nowhere},
        found="which does not stand",
    ),
    # That serve records no exit before the whole group is gone is a matter of processes, and tested with them.
    rule(
        "G10 an engine's exit is recorded over its callback",
        UNWINDOWED._replace(closes=True),
        patches=[(Leases, "exit", mutations.exits_at_once)],
        found="which does not stand",
    ),
    rule(
        "G11 a lease that was cleared does not count as lapsed",
        UNWINDOWED._replace(serve_dies=True),
        statements={"create_standing_guards": without("), 0) AS lease_until", "), 9000000000000) AS lease_until")},
        found="the goal is out of reach",
    ),
    rule(
        "G11 a renewal takes an ended lease for its own",
        UNWINDOWED._replace(ticks=2),
        statements={"held_attempts": without(" AND lease_end IS NULL")},
        found="which does not stand",
    ),
    rule(
        "G12 a receipt does not settle its entry",
        UNWINDOWED,
        statements={
            "refuse_inadmissible": without(
                "(j.doubts > 0 OR j.receipt IS NOT NULL)", "j.doubts > 0 AND j.receipt IS NULL"
            )
        },
        found="acted twice",
    ),
    rule(
        "G13 that the destination never saw the key is no evidence",
        UNWINDOWED,
        patches=[(desk, "judged", mutations.judged_without_absence)],
        found="the goal is out of reach",
    ),
    rule(
        "G14 a callback without an answer counts as refused",
        UNWINDOWED,
        patches=[(effects, "ENDINGS", mutations.UNANSWERED_CLEARS)],
        found="acted twice",
    ),
    rule(
        "G15 a call that acted and left no value counts as refused",
        UNWINDOWED,
        patches=[(effects, "ending", mutations.every_answer_refuses)],
        found="acted twice",
    ),
    rule(
        "replay of a guard whose holder is not known to be gone",
        WINDOWED,
        statements={"replay_guards": without("s.exited_at IS NOT NULL AND ")},
        found="a guard that may not be replayed",
    ),
    rule(
        "replay of a guard whose window has passed",
        WINDOWED._replace(ticks=2),
        statements={"replay_guards": without("AND s.covered_until > :now")},
        found="a guard that may not be replayed",
    ),
    rule(
        "an operator's release that does not look again",
        UNWINDOWED._replace(ticks=2, waits=True),
        statements={"require_reconcilable": mutations.never},
        found="is released by operator",
    ),
    rule(
        "an operator's release that does not say whose it was",
        UNWINDOWED,
        statements={"audit_guard": without(":operator", "''")},
        found="the audit row of A1 is not whole",
    ),
]


@pytest.mark.clause(
    "run.callback-guard.replay",
    "run.callback-guard.acquire",
    "run.callback-guard.window",
    "run.callback-guard.holder-gone",
    "run.callback-guard.manual",
    "run.callback-guard.live-holder",
)
@pytest.mark.parametrize(("bounds", "statements", "patches", "found"), RULES)
def test_the_hole_that_a_rule_closes_is_found_without_it(bounds, statements, patches, found, monkeypatch):
    for target, name, value in patches:
        monkeypatch.setattr(target, name, value)
    model = GuardsModel(bounds, mutations=statements)
    goal = model.settled if bounds.attempts[1:] else None

    with pytest.raises(Counterexample) as counterexample:
        explore(model.initial(), model.steps, invariants=[broken], goal=goal)

    assert found in counterexample.value.what


def broken(state: State) -> str | None:
    return state.broken


def told(bounds: Bounds) -> str:
    """The bounds of an exploration, for whoever reads how far it went."""
    return ", ".join(f"{name} {value}" for name, value in bounds._asdict().items())
