"""Exhaustive exploration of small transition systems, breadth first, so that a counterexample is a shortest one.

A system is an initial state and `steps(state)`, which yields every (label, next state); states are hashable values.
An invariant is a function that returns what is wrong with a state, or None. A goal is something that must stay
possible: from every reachable state some continuation reaches it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

S = TypeVar("S")

CEILING = 2_000_000  # no model here has as many: one that grows past it is not finite


@dataclass(frozen=True, slots=True)
class Explored:
    """What an exploration went through without finding anything wrong."""

    states: int
    transitions: int
    depth: int

    def __str__(self) -> str:
        return f"{self.states:,} states, {self.transitions:,} transitions, depth {self.depth}"


class Counterexample(AssertionError):
    """A state that breaks an invariant, or one no goal can be reached from, and the shortest way there."""

    def __init__(self, what: str, labels: Sequence[str], state: object) -> None:
        steps = "\n".join(f"  {number:2}. {label}" for number, label in enumerate(labels, 1))
        super().__init__(f"{what}\n{steps}\nin {state}")
        self.what = what
        self.labels = tuple(labels)


def explore(
    initial: S,
    steps: Callable[[S], Iterable[tuple[str, S]]],
    *,
    invariants: Iterable[Callable[[S], str | None]] = (),
    goal: Callable[[S], bool] | None = None,
) -> Explored:
    """Visit every reachable state once. Raise `Counterexample` for the first that breaks an invariant or is stuck."""
    graph: _Graph[S] = _Graph(initial)
    checks = tuple(invariants)
    queue = deque([0])
    while queue:
        number = queue.popleft()
        state = graph.states[number]
        if what := next(filter(None, (check(state) for check in checks)), None):
            raise Counterexample(what, graph.path(number), state)
        queue.extend(graph.expand(number, steps(state)))
    if goal is not None and (stuck := graph.stuck(goal)) is not None:
        raise Counterexample("the goal is out of reach", graph.path(stuck), graph.states[stuck])
    return Explored(len(graph.states), sum(map(len, graph.before)), graph.depths[-1])


class _Graph(Generic[S]):
    """The states by number, in the order they were found, and the ways between them."""

    def __init__(self, initial: S) -> None:
        self.states = [initial]
        self.depths = [0]
        self.before: list[list[int]] = [[]]
        self._numbers = {initial: 0}
        self._found: list[tuple[int, str]] = [(0, "")]

    def expand(self, number: int, following: Iterable[tuple[str, S]]) -> Iterable[int]:
        for label, state in following:
            known = self._numbers.setdefault(state, len(self.states))
            if known == len(self.states):
                assert known < CEILING, f"the model has over {CEILING:,} states"
                self.states.append(state)
                self.depths.append(self.depths[number] + 1)
                self.before.append([])
                self._found.append((number, label))
                yield known
            self.before[known].append(number)

    def path(self, number: int) -> list[str]:
        before, label = self._found[number]
        return [*self.path(before), label] if number else []

    def stuck(self, goal: Callable[[S], bool]) -> int | None:
        """The first state no continuation leads from to the goal."""
        reaching = {number for number, state in enumerate(self.states) if goal(state)}
        ahead = list(reaching)
        while ahead:
            leading = set(self.before[ahead.pop()]) - reaching
            reaching |= leading
            ahead.extend(leading)
        return next((number for number in range(len(self.states)) if number not in reaching), None)
