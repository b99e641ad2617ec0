"""The readme's state diagrams are the tables the statements are tested against."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from engine.fires import FIRE
from engine.guards.rules import WAYS, Holder, Transfer
from engine.runs import RUN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

S = TypeVar("S", bound=StrEnum)

README = Path(__file__).parents[2] / "README.md"


def drawn(name: str, table: Mapping[S, AbstractSet[S]]) -> str:
    """One line a state that can be left, in the table's order."""
    order = list(table)
    width = max(map(len, order)) + 2
    left = {state: sorted(targets, key=order.index) for state, targets in table.items() if targets}
    lines = [f"{state:{width}}─▶ {', '.join(targets)}" for state, targets in left.items()]
    return "\n".join([f"{name}", *(f"  {line}" for line in lines)])


@pytest.mark.clause("run.record.status-set")
def test_the_readme_draws_the_states_of_a_run():
    assert drawn("a run", RUN) in README.read_text(encoding="utf-8")


def test_the_readme_draws_the_states_of_a_fire():
    assert drawn("a fire", FIRE) in README.read_text(encoding="utf-8")


@pytest.mark.clause("run.callback-guard.release", "run.callback-guard.replay", "run.callback-guard.manual")
def test_the_readme_tells_operators_the_ways_out_of_a_guard_as_the_engine_decides_them():
    engines = {Holder.PRESENT: "no exit recorded", Holder.GONE: "exit recorded"}
    takeovers = {
        Transfer.ALIVE: "no, the lease runs",
        Transfer.REPLAYS: "yes, replays the key",
        Transfer.BLOCKED: "no, blocked",
    }
    told = [
        f"| {engines[holder]} | {lease} | {window} | {'yes' if ways.release else 'no'} | {takeovers[ways.transfer]}"
        f" | {'with evidence' if ways.manual else 'no'} |"
        for (holder, lease, window), ways in WAYS.items()
    ]

    assert "\n".join(told) in README.read_text(encoding="utf-8")
