"""One engine of the soak: opens scope after scope and writes each effect down as it happens."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from engine.clock import SystemClock
from engine.errors import ContextfulError
from engine.execution.execution import Execution
from engine.host import Engine, Settings
from tests.edge.work import PROJECT, opened

if TYPE_CHECKING:
    from pathlib import Path

    from engine.execution.call import Call

EFFECTS: Final = ("count", "charge", "mail")
LINGERS_S: Final = 0.2


def main(root: Path, environ: dict[str, str], scopes: list[str], *, ahead_ms: int = 0) -> None:
    """Finish each of `scopes` once; what another engine holds, or an outage ends, is left to whoever comes next."""
    clock = SystemClock(ahead_ms)
    with Engine(opened(environ, root, clock=clock), Settings(PROJECT, "here"), clock=clock) as engine:
        for scope in scopes:
            with suppress(ContextfulError):
                finish(engine, scope, book=root / "effects")


def finish(engine: Engine, scope: str, *, book: Path) -> None:
    """Do what is left of `scope`."""
    execution = engine.open(scope, plan="p", once=True)
    if isinstance(execution, Execution):
        with execution:
            for effect in EFFECTS:
                execution.step(effect, partial(written_down, f"{scope} {effect}", book))


def written_down(what: str, book: Path, call: Call) -> str:
    """Append one line in one write: a kill leaves it whole or not there. What follows is when kills are to come."""
    with book.open("ab", buffering=0) as appended:
        appended.write(f"{what} {call.idempotency_key}\n".encode())
    time.sleep(LINGERS_S)
    return what
