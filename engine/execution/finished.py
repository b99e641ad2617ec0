"""A finished execution opened once more with `once=True`: its recorded values, and nothing that could run again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from engine.errors import ExecutionFinished
from engine.execution import values
from engine.shapes import EntryKey

if TYPE_CHECKING:
    from engine.owners import Owner
    from engine.ports import JournalStore


@dataclass(frozen=True, slots=True)
class FinishedExecution:
    """Answers every recorded step; a step it never recorded raises `ExecutionFinished`."""

    owner: Owner
    journal: JournalStore

    @property
    def execution_id(self) -> str:
        """The finished execution."""
        return self.owner.execution_id

    @property
    def resumed(self) -> bool:
        """Always: everything is replayed."""
        return True

    def step(self, label: str, effect: Any, *, input: Any = None, **_: Any) -> Any:  # noqa: A002, ARG002 - as Execution
        """Return the value the execution recorded for (`label`, `input`); `effect` is never called."""
        entry = self.journal.find(EntryKey(self.execution_id, label, values.input_hash(input, step=label)))
        if entry is None or not entry.recorded:
            raise ExecutionFinished(scope=self.owner.scope, step=label)
        return values.decode(self.journal.value(entry))

    def close(self) -> None:
        """Nothing is open."""

    def __enter__(self) -> Self:
        """Use it as an execution is used."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave it as it is."""
