"""What a callback asks for before it goes out, and what it got."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.guards.rules import Kind
from engine.shapes import canonical_json

if TYPE_CHECKING:
    from engine.shapes import Attempt, EntryKey


@dataclass(frozen=True, slots=True)
class Fence:
    """A lease on a key as its holder knows it (shape *lease*)."""

    key: str
    holder: str
    fence: int


@dataclass(frozen=True, slots=True)
class Asked:
    """A callback that wants to go out: under which guard's token, for which entry, claim and attempt, and where to.

    `above` are the attempts that hold the ancestors of its scope, `fences` the leases it works under
    (run.callback-guard.scope). Each row is asked for once.
    """

    token: str
    key: EntryKey
    attempt: Attempt
    claim: str
    destination: str
    window_ms: int | None
    kind: Kind = Kind.EFFECT
    above: tuple[Attempt, ...] = ()
    fences: tuple[Fence, ...] = ()

    @property
    def protected(self) -> tuple[str, ...]:
        """The rows that the guard must bind."""
        return tuple(self._wanted)

    @property
    def entry(self) -> dict[str, str]:
        """The entry as its statements name it."""
        return {"execution_id": self.key.execution_id, "step": self.key.step, "input": self.key.input}

    @property
    def active(self) -> dict[str, str]:
        """The attempt as the statements that check it name it."""
        return {"scope": self.attempt.scope, "run_id": self.attempt.run_id, "holder": self.attempt.holder}

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the statements that admit it."""
        return {
            **self.entry,
            **self.active,
            "guard": self.token,
            "claim": self.claim,
            "rows": canonical_json(list(self._wanted.values())),
            "idempotency_key": self.key.idempotency_key,
            "kind": str(self.kind),
            "destination": self.destination,
            "window_ms": self.window_ms,
        }

    @property
    def _wanted(self) -> dict[str, dict[str, Any]]:
        owners = {
            f"owner:{each.scope}": {
                "scope": each.scope,
                "execution_id": each.execution_id,
                "attempt": each.run_id,
                "holder": each.holder,
            }
            for each in (self.attempt, *self.above)
        }
        leases = {
            f"lease:{each.key}": {"key": each.key, "holder": each.holder, "fence": each.fence} for each in self.fences
        }
        return owners | leases


@dataclass(frozen=True, slots=True)
class Admitted:
    """A callback under its guard. `admitted_at` and `covered_until` are the store's instants."""

    asked: Asked
    attempts: int
    next_attempt_at: int | None
    admitted_at: int
    covered_until: int | None

    @property
    def token(self) -> str:
        """The guard's name."""
        return self.asked.token
