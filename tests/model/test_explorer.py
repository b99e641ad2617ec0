"""The explorer itself: it sees every state once, and shows the shortest way to what is wrong."""

from __future__ import annotations

import pytest

from tests.model.explorer import Counterexample, Explored, explore


def counting(state: int):
    """From 0, up by one or by three, to at most 7."""
    yield from ((f"+{n}", state + n) for n in (1, 3) if state + n <= 7)


def test_every_reachable_state_is_visited_once():
    explored = explore(0, counting)

    assert explored == Explored(states=8, transitions=12, depth=3)


def test_a_broken_invariant_is_shown_with_the_shortest_way_there():
    with pytest.raises(Counterexample) as counterexample:
        explore(0, counting, invariants=[lambda state: "it is seven" if state == 7 else None])

    assert counterexample.value.what == "it is seven"
    assert sorted(counterexample.value.labels) == ["+1", "+3", "+3"]


def test_a_state_no_continuation_leads_on_from_is_stuck():
    with pytest.raises(Counterexample) as counterexample:
        explore(0, counting, goal=lambda state: state == 6)

    assert counterexample.value.what == "the goal is out of reach"
    assert sorted(counterexample.value.labels) == ["+1", "+3", "+3"]


def test_a_goal_that_stays_possible_is_no_counterexample():
    assert explore(0, counting, goal=lambda state: state == 7).states == 8
