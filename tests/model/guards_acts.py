"""What befalls a guarded scope from outside its attempts: takeovers, renewals, exits, the operator; each at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.errors import ContextfulError
from engine.execution.keeper import LEASE_MS
from engine.execution.leases import Leases
from engine.guards.admission import SqlAdmission
from engine.guards.desk import Desk
from engine.guards.store import Guards
from engine.journal import SqlJournal
from engine.local.blobs import SqliteBlobs
from engine.owners import Owners
from engine.pins import Pins
from engine.runs import RunRow
from engine.shapes import RunStatus
from engine.sql import call
from tests.model.guards_engine import EXECUTION, SCOPE
from tests.model.guards_store import Tokens, afloat

if TYPE_CHECKING:
    from engine.ports import Call
    from tests.model.guards_store import Adrift, GuardStore


def opened(store: Any, name: str) -> bool:
    """Register an engine and open its attempt; what a refused one leaves of itself is forgotten."""
    holder = f"h-{name}"
    before = store.rows()
    store.run(call("register_holder", holder=holder, pid=1, boot_id="b", lease_ms=LEASE_MS))
    try:
        _owners(store).open(SCOPE, Pins("p"), run=RunRow(name, RunStatus.RUNNING, 0), holder=holder)
    except ContextfulError:
        store.put_back(before)
        return False
    return True


def renewed(store: Any, name: str, known_until: int) -> int:
    """Renew an engine's holder as its keeper does; return until when its attempt's lease is known to run."""
    leases = _leases(store, name)
    leases._known = {name: known_until}
    leases._renew_if_due()
    return leases.known_until(name)


def closed(store: Any, name: str, at_work: int) -> None:
    """Close an engine that has so many callbacks at work."""
    leases = _leases(store, name)
    leases._renewed_at = 0
    leases._at_work = at_work
    leases.exit()


def reaped(store: GuardStore, name: str) -> None:
    """Record an engine's exit, as serve does once nothing of it is left."""
    store.run(call("exit_holder", holder=f"h-{name}"))


def decided(store: GuardStore, evidence: str, value: bytes | None) -> Adrift | None:
    """The batch that an operator's desk would run for the guard that stands; None where it refuses."""
    desk_store: Any = _Reads(store)
    admission = SqlAdmission(desk_store, SqlJournal(desk_store, SqliteBlobs(desk_store)))
    try:
        for standing in Guards(desk_store).all():
            Desk(desk_store, admission).reconcile(standing.guard.token, evidence=evidence, operator="ops", value=value)
    except ContextfulError:
        return None
    except _Writes as writing:
        return writing.batch
    return None


def rewound(store: Any) -> bool:
    """Retire the owner as a rewind does; tell whether that was done."""
    owners = _owners(store)
    owner = owners.read(SCOPE)
    if owner is None:
        return False
    try:
        owners.withdraw(owner)
    except ContextfulError:
        return False
    return True


class _Writes(BaseException):
    def __init__(self, batch: Adrift) -> None:
        super().__init__()
        self.batch = batch


class _Reads:
    """A store that stops whoever would write to it."""

    def __init__(self, store: GuardStore) -> None:
        self._store = store

    def run(self, *calls: Call) -> list[Any]:
        if not all(each.statement.reads for each in calls):
            raise _Writes(afloat(calls))
        return self._store.run(*calls)

    def now(self) -> int:
        return self._store.now()


def _leases(store: Any, name: str) -> Leases:
    nobody: Any = None
    return Leases(store, store, holder=f"h-{name}", keeper=nobody)


def _owners(store: Any) -> Owners:
    chance: Any = Tokens("", execution=EXECUTION)
    return Owners(store, SqlJournal(store, SqliteBlobs(store)), chance)
