"""What a pending owner holds fixed, as one text that a resume is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine.errors import PinUnusable
from engine.shapes import canonical_json

if TYPE_CHECKING:
    from engine.shapes import Connector


@dataclass(frozen=True, slots=True)
class Pins:
    """What a pending owner holds fixed (run.own.execution-owner, run.own.host-scope).

    A table or chunk owner pins its connector and the `content_hash` of its declaration; a host owner pins its plan
    reference and the identities its host names. `input_hash` is recorded and never compared.
    """

    plan_ref: str
    identities: tuple[tuple[str, str], ...] = ()
    connector: Connector | None = None
    input_hash: str | None = None

    def __post_init__(self) -> None:
        """Raise `PinUnusable` for a pin that no later open could be compared with."""
        for name, value in self.identities:
            if not (isinstance(name, str) and _compares([name, value])):
                found = ascii(value)[:60] if isinstance(value, str | float) else f"of the type {type(value).__name__}"
                raise PinUnusable(pin=ascii(name)[:60], found=found if isinstance(name, str) else "named by no text")

    @property
    def text(self) -> str:
        """The compared pins as canonical JSON, so that one string equality decides a resume."""
        pinned: dict[str, Any] = {"plan_ref": self.plan_ref, "identities": dict(sorted(self.identities))}
        if self.connector:
            pinned["connector"] = {"hash": self.connector.hash, "id": self.connector.id,
                                   "version": self.connector.version, "world": self.connector.world}  # fmt: skip
        return canonical_json(pinned)


def _compares(value: Any) -> bool:
    """Whether `value` has a canonical text that a store can keep."""
    try:
        canonical_json(value).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True
