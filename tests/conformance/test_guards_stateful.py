"""Whatever engines, a destination, time and an operator do, in any order: nothing is sent twice, nothing is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from engine import sql
from engine.execution.cover import Cover
from engine.sql import statement
from tests.conftest import ON_EDGE
from tests.guarded_machine import Machine
from tests.model.guards_mutations import leased
from tests.model.replay import without
from tests.scale import FULL, edge_scale, scale
from tests.stores import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.clocks import SettableClock
    from tests.edges import Edges


def explore(
    new_store: Callable[[SettableClock], Store],
    *,
    examples: int,
    steps: int,
    phases: tuple[Phase, ...] = tuple(Phase),
    derandomize: bool = FULL,
) -> None:
    """Walk the machine. At full scale the walks are the same every time: what is merged is judged by what was seen
    before, and the short scale draws new ones at every desk."""
    machine: type[Machine] = type("Ground", (Machine,), {"new_store": staticmethod(new_store)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            print_blob=True,
            phases=phases,
            derandomize=derandomize,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.fixture
def numbered(tmp_path: Path) -> Callable[[], Path]:
    """A folder of its own for every example."""
    numbers = iter(range(1 << 30))
    return lambda: tmp_path / str(next(numbers))


@pytest.mark.clause("run.callback-guard.replay", "run.callback-guard.manual", "run.callback-guard.release")
@pytest.mark.parametrize("profile", ["sqlite", "file"])
def test_over_files_nothing_is_sent_twice_and_nothing_is_stuck(profile: str, numbered: Callable[[], Path]) -> None:
    def new_store(clock: SettableClock) -> Store:
        return Store(profile, numbered(), clock, dict).initialized()

    explore(new_store, examples=scale(short=12, full=200), steps=scale(short=25, full=40))


@pytest.mark.clause("run.callback-guard.window")
@pytest.mark.parametrize("rule", ["G2", "G3"])
def test_a_rule_that_is_switched_off_is_found_out(
    rule: str, numbered: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    if rule == "G2":
        doubted = without("j.doubts > 0 OR ")(statement("refuse_inadmissible"))
        monkeypatch.setitem(sql._statements(), "refuse_inadmissible", doubted)
    else:
        monkeypatch.setattr(Cover, "check", leased)

    def new_store(clock: SettableClock) -> Store:
        return Store("sqlite", numbered(), clock, dict).initialized()

    with pytest.raises(AssertionError):
        explore(new_store, examples=60, steps=25, phases=(Phase.generate,), derandomize=True)


@pytest.mark.clause("run.journal.d1-guard", "run.callback-guard.replay", "run.callback-guard.manual")
def test_over_d1_nothing_is_sent_twice_and_nothing_is_stuck(edges: Edges, numbered: Callable[[], Path]) -> None:
    def new_store(clock: SettableClock) -> Store:
        edges.give_back()
        return Store(ON_EDGE, numbered(), clock, edges.fresh).initialized()

    explore(new_store, examples=edge_scale(short=2, full=60), steps=edge_scale(short=12, full=40))
