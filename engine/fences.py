"""Leases on keys that are no owner's scope, such as one entity of many: whoever takes a key raises its fence.

What an earlier holder still sends or publishes carries a lower fence, so the store tells the two apart
(run.items.fence). A lease lives by its holder's row, like every other of its engine; nothing renews it by itself.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import Refused, StorageBindingUnavailable
from engine.guards.asked import Fence
from engine.guards.guard import LEASE
from engine.guards.store import Guards
from engine.sql import call
from engine.unanswered import settled

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
    """Takes, releases and reads leases of one store; an engine has one, so that its takes are told from one another.

    A fence is given out once, and one engine's takes come one after another: what stands under the holder at the fence
    that a take was about to raise can only be its doing, should its answer be lost (run.journal.d1-transport).
    """

    def __init__(self, database: Database) -> None:
        self._db = database
        self._turn = threading.Lock()
        self._unheard: dict[str, Fence] = {}

    def take(self, key: str, *, holder: str) -> Fence | None:
        """Hold `key` under a fence above every earlier one; None while a holder has it that is alive.

        A take of which nothing told is remembered: should it have been applied, the next one returns it. Raise
        `ExecutionTransferBlocked` while a guard protects the key (run.callback-guard.scope).
        """
        with self._turn:
            standing = self.read(key)
            unheard = self._unheard.get(key)
            wanted = Fence(key, holder, standing.fence + 1 if standing else 1)
            taken = unheard if unheard and _stands(unheard, standing) else self._taken(wanted, standing)
            if taken:
                self._unheard.pop(key, None)
            return taken

    def release(self, held: Fence) -> bool:
        """Give the key up and keep its fence; tell whether it was still held so."""
        return bool(self._db.run(call("release_lease", key=held.key, holder=held.holder, fence=held.fence))[0])

    def read(self, key: str) -> LeaseRow | None:
        """The lease of `key`, if it was ever taken."""
        rows = self._db.run(call("read_lease", key=key))[0]
        return LeaseRow(*rows[0]) if rows else None

    def _taken(self, wanted: Fence, standing: LeaseRow | None) -> Fence | None:
        key = wanted.key
        taking = (
            call("retake_lease", key=key, holder=wanted.holder, fence=standing.fence)
            if standing
            else call("take_lease", key=key, holder=wanted.holder)
        )
        try:
            taken = settled(
                lambda: bool(self._db.run(taking)[0]), found=lambda: _stands(wanted, self.read(key)) or None
            )
        except StorageBindingUnavailable:
            self._unheard[key] = wanted
            raise
        except Refused as refusal:
            raise Guards(self._db).blocking(LEASE + key) or refusal from refusal
        # An unheard take may have arrived between our look and ours, which then took nothing.
        late = not taken and self._unheard.get(key) == wanted and _stands(wanted, self.read(key))
        return wanted if taken or late else None


def _stands(fence: Fence, standing: LeaseRow | None) -> bool:
    return standing is not None and (standing.holder, standing.fence) == (fence.holder, fence.fence)
