"""The journal's theorems on steps, checked on every interleaving of the engine's own code.

Each theorem has its twin: one condition of a real statement is taken away, and the explorer must find what it kept out.
"""

from __future__ import annotations

import pytest

from engine.execution.steps import Steps
from tests.model.explorer import Counterexample, explore
from tests.model.replay import unsynced, without
from tests.model.steps_model import State, StepsModel
from tests.scale import scale


@pytest.mark.clause("run.journal.step-output", "run.journal.collection")
def test_a_value_is_recorded_once_stands_through_crashes_and_is_what_every_caller_reads(record_property):
    model = StepsModel(scale(short={"A": 2, "B": 1, "C": 1}, full={"A": 2, "B": 2, "C": 1}), ticks=2)

    explored = explore(model.initial(), model.steps, invariants=[*outputs(model), judged])

    record_property("explored", str(explored))
    assert explored.states > 20_000


@pytest.mark.clause("run.journal.entry-key")
def test_no_two_callers_of_an_attempt_are_inside_one_effect(record_property):
    model = StepsModel(scale(short={"A": 3, "B": 1}, full={"A": 3, "B": 2}), ticks=1, power=False)

    explored = explore(model.initial(), model.steps, invariants=[alone(model), judged])

    record_property("explored", str(explored))
    assert explored.states > 10_000


@pytest.mark.clause("run.journal.claim-takeover", "run.journal.current-owner")
def test_a_lapsed_claim_is_taken_over_and_its_old_attempt_neither_dispatches_nor_records(record_property):
    model = StepsModel(scale(short={"A": 2, "B": 1}, full={"A": 2, "B": 2}), ticks=2, power=False)

    explored = explore(model.initial(), model.steps, invariants=[judged, ended], goal=recorded)

    record_property("explored", str(explored))
    assert explored.states > 4_000


@pytest.mark.clause("run.journal.claim-takeover")
def test_a_claim_the_power_took_is_claimed_again(record_property):
    model = StepsModel({"A": 1, "B": 1, "C": 1}, ticks=2)

    explored = explore(model.initial(), model.steps, invariants=[judged, ended], goal=recorded)

    record_property("explored", str(explored))


@pytest.mark.clause("run.journal.entry-key", "run.journal.claim-takeover", "run.journal.step-output")
@pytest.mark.parametrize(
    ("statement", "mutation", "found"),
    [
        pytest.param(
            "claim_entry",
            without(
                "journal.claim IS NULL OR journal.claim = excluded.claim OR journal.run_id <> excluded.run_id", "1"
            ),
            "A.0 and A.1 are inside",
            id="any caller may take a pending claim",
        ),
        pytest.param(
            "claim_entry",
            without(" OR journal.run_id <> excluded.run_id"),
            "the goal is out of reach",
            id="nobody may take over a pending claim",
        ),
        pytest.param(
            "claim_entry",
            without(" AND attempt = :run_id AND holder = :holder"),
            "superseded",
            id="a claim does not ask who holds the owner",
        ),
        pytest.param(
            "claim_entry",
            without("journal.value IS NULL AND journal.digest IS NULL\n   AND "),
            "recorded",
            id="a recorded value may be claimed",
        ),
        pytest.param(
            "record_entry",
            without("AND attempt = :run_id AND holder = :holder"),
            "A.0 records, superseded",
            id="a record does not ask who holds the owner",
        ),
        pytest.param(
            "collect_entries",
            without("execution_id = :execution_id", "execution_id = :execution_id AND value IS NULL"),
            "was born after its execution retired",
            id="retiring leaves what was recorded",
        ),
        pytest.param(
            "take_owner",
            without(":now >= (SELECT l.lease_until FROM leased_owners AS l WHERE l.scope = :scope)", "1"),
            "B takes the owner from a lease that runs",
            id="a lease that runs does not keep others off",
        ),
    ],
)
def test_a_statement_without_its_condition_is_found_out(statement, mutation, found):
    model = StepsModel({"A": 2, "B": 1}, ticks=1, power=False, mutations={statement: mutation})

    with pytest.raises(Counterexample) as counterexample:
        explore(model.initial(), model.steps, invariants=[*outputs(model), alone(model), judged, ended], goal=recorded)

    assert found in counterexample.value.what


@pytest.mark.clause("run.journal.step-output")
def test_a_record_that_did_not_reach_the_disk_is_found_out():
    model = StepsModel({"A": 1, "B": 1}, ticks=1, mutations={"record_entry": unsynced})

    with pytest.raises(Counterexample) as counterexample:
        explore(model.initial(), model.steps, invariants=outputs(model))

    assert counterexample.value.what == "b'A.0' was recorded and is gone"
    assert "the power goes, with it the last 1 batches" in counterexample.value.labels


@pytest.mark.clause("run.journal.current-owner")
def test_a_step_that_does_not_look_again_after_a_wait_is_found_out(monkeypatch):
    monkeypatch.setattr(Steps, "_wait", lambda step, *_, due: step.cancellation.wait(step.clock, due))
    model = StepsModel({"A": 1, "B": 1}, ticks=1, power=False)

    with pytest.raises(Counterexample) as counterexample:
        explore(model.initial(), model.steps, invariants=[judged])

    assert counterexample.value.what == "A.0 enters the effect, superseded"


def outputs(model: StepsModel):
    """What run.journal.step-output promises of every state."""

    def value_stands(state: State) -> str | None:
        row = model.row(state)
        value = row["value"] if row else None
        if model.retired(state):
            return f"{row} was born after its execution retired" if row else None
        if value == state.recorded:
            return None
        return f"{state.recorded!r} was recorded and is {'gone' if value is None else f'now {value!r}'}"

    def every_caller_reads_it(state: State) -> str | None:
        reads = {t.result for _, t in state.threads if t.on == "returned"}
        return f"callers read {reads}, recorded is {state.recorded!r}" if reads - {state.recorded} else None

    def effect_ran(state: State) -> str | None:
        never = state.recorded is not None and state.recorded.decode() not in state.sent
        return f"{state.recorded!r} is recorded and its effect never ran" if never else None

    return [value_stands, every_caller_reads_it, effect_ran]


def alone(model: StepsModel):
    """What run.journal.entry-key promises of every state."""

    def one_inside(state: State) -> str | None:
        inside = model.inside(state)
        attempts = [name[0] for name in inside]
        return f"{' and '.join(inside)} are inside" if len(attempts) > len(set(attempts)) else None

    return one_inside


def judged(state: State) -> str | None:
    return state.broken


def ended(state: State) -> str | None:
    strange = {t.result for _, t in state.threads if t.on == "raised"} - {"StepFailed", "ExecutionSuperseded"}
    return f"a caller ends with {strange}" if strange else None


def recorded(state: State) -> bool:
    return state.recorded is not None
