"""A `Database` in D1: every batch of the engine is one request to the binding, and there one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from d1.wire import MAX_STATEMENTS, sent
from engine.errors import StorageLimitExceeded
from engine.ports import Call, Statement

if TYPE_CHECKING:
    from d1.binding import Binding, Intent
    from engine.clock import Clock
    from engine.ports import Rows

_APPLY_ONCE: Final = frozenset({"set_meta"})
"""The statements besides DDL whose second application leaves what the first one left (run.journal.d1-initialize)."""

_NOW: Final = Call(Statement("now", "SELECT CAST(:now AS INTEGER) AS now", ("now",), reads=True, durable=False), {})


class D1Database:
    """A SQL store behind `binding` (run.journal.d1-profile). Every batch is durable when it returns.

    The Worker's clock judges, unless one is injected. A write whose answer is lost raises `StorageBindingUnavailable`:
    the stores above look whether it was applied, by their own tokens (run.journal.d1-transport).
    """

    def __init__(self, binding: Binding, *, clock: Clock | None = None) -> None:
        self.binding = binding
        self._clock = clock

    def run(self, *calls: Call) -> list[Rows]:
        """Run `calls` as one transaction. Raise `StorageLimitExceeded` before anything is sent, or what D1 says."""
        if len(calls) > MAX_STATEMENTS:
            found = f"{len(calls)} statements in its batch"
            raise StorageLimitExceeded(statement=calls[0].statement.name, found=found, limit=str(MAX_STATEMENTS))
        now = self._clock.now() if self._clock else None
        return self.binding.batch([sent(each, now=now) for each in calls], intent=intent(calls))

    def now(self) -> int:
        """The instant of the clock that judges; the Worker's is a round trip away."""
        if self._clock:
            return self._clock.now()
        [[[instant]]] = self.run(_NOW)
        return int(instant)

    def close(self) -> None:
        """Close the connections."""
        self.binding.close()


def intent(calls: tuple[Call, ...]) -> Intent:
    """Whether a batch may be sent again: it only reads, or applying it twice leaves what applying it once leaves."""
    if all(each.statement.reads for each in calls):
        return "read"
    if all(_applies_once(each.statement) for each in calls):
        return "initialize"
    return "write"


def _applies_once(statement: Statement) -> bool:
    made = statement.text.startswith("CREATE ") and " IF NOT EXISTS " in statement.text
    return made or statement.name in _APPLY_ONCE or statement.reads
