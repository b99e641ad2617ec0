"""The escape hatch: an idempotent read that is not worth recording. Every use says why a repeat is harmless."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.errors import Config
from engine.execution import values

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.execution.held import Held


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """Reads that leave no record. Search for `journal.unsafe` to find every one of a program."""

    held: Held

    def unsafe(self, label: str, effect: Callable[[], Any], *, because: str) -> Any:
        """Return what `effect` reads, again on every replay; `because` is the argument that this is harmless.

        The value is JSON or bytes as a step's would be, so that recording it later changes nothing. Raise `Config` when
        the argument is missing (run.journal.escape-hatch).
        """
        if not because.strip():
            remedy = "say in `because` why a repeat is harmless"
            raise Config(f"journal.unsafe({label!r}) gives no reason", remedy=remedy)
        self.held.cancellation.check()
        return values.decode(values.encode(effect(), step=label))
