"""A branch of a join: the execution's steps under labels of the branch's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.execution.execution import Execution


@dataclass(frozen=True, slots=True)
class Branch:
    """One of a join's parallel branches; `prefix` keeps its labels apart from its siblings'."""

    execution: Execution
    prefix: str

    def step(self, label: str, effect: Any, **options: Any) -> Any:
        """Run a step of this branch; see `Execution.step`."""
        return self.execution.step(f"{self.prefix}/{label}", effect, **options)

    def wait(self, label: str, **options: Any) -> Any:
        """Suspend this branch; see `Execution.wait`."""
        return self.execution.wait(f"{self.prefix}/{label}", **options)
