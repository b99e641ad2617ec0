"""What an effect is handed: the key to send, the attempt it is, and what stops it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

    from engine.execution.cancellation import Cancellation
    from engine.execution.outbound import Outbound
    from engine.shapes import EntryKey


@dataclass(frozen=True, slots=True)
class Call:
    """One attempt of a step's effect.

    The idempotency key is the same on every re-entry of this effect, so a vendor that honours keys acts once
    (run.journal.idempotency-key); `attempt` counts from 1 over every process that has tried.
    """

    key: EntryKey
    attempt: int
    cancellation: Cancellation
    outbound: Outbound

    @property
    def idempotency_key(self) -> str:
        """The key to send, the same however often this step is tried."""
        return self.key.idempotency_key

    @property
    def http(self) -> httpx.Client:
        """A client whose requests carry the key in the destination's header and are in the ledger."""
        return self.outbound.client
