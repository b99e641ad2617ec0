"""Opens whose answers were lost: the owner itself tells whether one was applied, and what it took is given back.

An owner that our holder has for an attempt that is not at work can only be the doing of an open that nobody heard of.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.errors import StorageBindingUnavailable
from engine.runs import Runs
from engine.shapes import Attempt, RunStatus
from engine.sql import call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.owners import Owner, Owners
    from engine.ports import Database, Rows


class Strays:
    """Keeps which attempts of one engine are at work, and the scopes whose open remained unanswered."""

    def __init__(self, owners: Owners, database: Database) -> None:
        self._owners = owners
        self._db = database
        self._at_work: set[str] = set()
        self._unsettled: dict[str, StorageBindingUnavailable] = {}

    @contextmanager
    def opening(self, scope: str, *, holder: str) -> Iterator[None]:
        """Give back first what an earlier open of `scope` took unheard; remember this one where nothing tells of it."""
        if scope in self._unsettled:
            self._give_back(scope, holder=holder)
        try:
            yield
        except StorageBindingUnavailable as lost:
            self._unsettled[scope] = lost
            raise

    def begin(self, run_id: str) -> None:
        """Count the attempt among those at work."""
        self._at_work.add(run_id)

    def end(self, run_id: str) -> None:
        """Count it no more."""
        self._at_work.discard(run_id)

    def found(self, attempt: Attempt) -> list[Rows] | None:
        """What an open answers that took the owner; None unless its holder has it for an attempt not at work."""
        owner = self._stray(attempt.scope, holder=attempt.holder)
        if owner is None:
            return None
        woken = [] if owner.attempt == attempt.run_id else [(owner.attempt,)]
        rows = self._db.run(call("read_owner", scope=attempt.scope))[0]
        return [[(owner.attempt,)], [], [], rows, [], woken]

    def _stray(self, scope: str, *, holder: str) -> Owner | None:
        owner = self._owners.read(scope)
        stray = owner is not None and owner.holder == holder and owner.attempt not in self._at_work
        return owner if stray else None

    def _give_back(self, scope: str, *, holder: str) -> None:
        """Release what an open took whose outcome was unknown when it was raised."""
        owner = self._stray(scope, holder=holder)
        row = Runs(self._db).get(owner.attempt) if owner and owner.attempt else None
        if owner and row:
            failed = row.ended(RunStatus.FAILED, at=self._db.now(), failure=self._unsettled[scope])
            self._owners.release(Attempt(scope, owner.execution_id, row.run_id, holder), run=failed)
        del self._unsettled[scope]
