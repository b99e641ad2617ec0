"""How an engine is run as a child, and when it is said to be gone (run.callback-guard.holder-gone).

start ──▶ attend ──the engine ends, or a stop──▶ end: TERM … KILL ──nothing of it is left──▶ record ──▶ its exit code
                                                                                             ▲     │
                                                                                             └─────┘ the store is away
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.errors import ContextfulError
from engine.serve.family import Family
from engine.serve.pipe import HoldersPipe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from engine.serve.wakes import Wakes

KILL_AFTER_S: Final = 10.0
"""How long what was asked to end may take before it is killed (children-reaped)."""

_LOOK_S: Final = 0.05
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class Supervisor:
    """Runs engines, one at a time, and records the exits of the holders each of them named.

    `record` writes those exits, or raises a `ContextfulError` and is called again. `say` tells a person. Nothing but
    the end of every process is taken for an exit: no lapsed lease, no process id. A serve process that is killed
    records nothing, and its engines' guards stay for the operator (run.callback-guard.container-stop).
    """

    wakes: Wakes
    record: Callable[[tuple[str, ...]], None]
    say: Callable[[str], None]
    kill_after_s: float = KILL_AFTER_S

    def run(self, argv: Sequence[str], *, environ: Mapping[str, str], stdout: int | None = None) -> int:
        """Run `argv` until it ends or a stop is asked for; return its exit code, 128 + N where signal N ended it.

        It returns once nothing of the engine is left and its holders' exits are recorded.
        """
        with HoldersPipe() as pipe:
            family = Family(argv, environ=environ, holders=pipe.path, stdout=stdout)
            try:
                self._attend(family, pipe)
                self._end(family, pipe)
            except BaseException:
                family.kill()  # a defect of ours leaves no engine behind, and nothing recorded
                raise
            self._record_all(pipe.holders())
        assert family.code is not None, "it is gone"
        return family.code if family.code >= 0 else 128 - family.code

    def _attend(self, family: Family, pipe: HoldersPipe) -> None:
        while not (self.wakes.stopping or family.ended()):
            self.wakes.wait(None, pipe)
            pipe.holders()

    def _end(self, family: Family, pipe: HoldersPipe) -> None:
        """Ask, wait, kill, until nothing of it is left."""
        patience_ends = time.monotonic() + self.kill_after_s
        told = False
        while not family.gone():
            if time.monotonic() < patience_ends and not self.wakes.hurried:
                family.ask()
            else:
                if not told:
                    self.say("not everything of the engine has ended: it is killed")
                told = True
                family.kill()
            self.wakes.wait(_LOOK_S)
            pipe.holders()

    def _record_all(self, holders: tuple[str, ...]) -> None:
        """Record the exits, for as long as it takes; a second stop gives it up."""
        pause = _FIRST_PAUSE_S
        names = ", ".join(holders)
        while holders:
            try:
                self.record(holders)
            except ContextfulError as failure:
                self.say(f"the exit of {names} is not recorded yet, again in {pause:g} s: {failure}")
            else:
                self.say(f"the exit of {names} is recorded")
                return
            self.wakes.sleep(pause)
            if self.wakes.hurried:
                self.say(f"the exit of {names} was not recorded: its guards wait for an operator")
                return
            pause = min(pause * 2, _LONGEST_PAUSE_S)
