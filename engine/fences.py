"""Leases on keys that are no owner's scope, such as one entity of many: whoever takes a key raises its fence.

What an earlier holder still sends or publishes carries a lower fence, so the store tells the two apart
(run.items.fence). A lease lives by its holder's row, like every other of its engine; nothing renews it by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import Refused
from engine.guards.asked import Fence
from engine.guards.guard import LEASE
from engine.guards.store import Guards
from engine.sql import call

if TYPE_CHECKING:
    from engine.ports import Database


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """A lease as it stands: `holder` is None once released, `lease_until` 0 where no holder's expiry is known."""

    key: str
    holder: str | None
    fence: int
    lease_until: int


class Fences:
    """Takes, releases and reads leases of one store."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def take(self, key: str, *, holder: str) -> Fence | None:
        """Hold `key` under a fence above every earlier one; None while a holder has it that is alive.

        Raise `ExecutionTransferBlocked` while a guard protects it (run.callback-guard.scope).
        """
        standing = self.read(key)
        taking = (
            call("retake_lease", key=key, holder=holder, fence=standing.fence)
            if standing
            else call("take_lease", key=key, holder=holder)
        )
        try:
            taken = self._db.run(taking)[0]
        except Refused as refusal:
            raise Guards(self._db).blocking(LEASE + key) or refusal from refusal
        return Fence(key, holder, taken[0][0]) if taken else None

    def release(self, held: Fence) -> bool:
        """Give the key up and keep its fence; tell whether it was still held so."""
        return bool(self._db.run(call("release_lease", key=held.key, holder=held.holder, fence=held.fence))[0])

    def read(self, key: str) -> LeaseRow | None:
        """The lease of `key`, if it was ever taken."""
        rows = self._db.run(call("read_lease", key=key))[0]
        return LeaseRow(*rows[0]) if rows else None
