"""A guard as it stands: what it protects, whose callback it admits, and what would release it now."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from engine.guards.rules import CLASSES, WAYS, EvidenceClass, Holder, Kind, Lease, Ways, Window, lease, window
from engine.instants import instant

OWNER: Final = "owner:"
LEASE: Final = "lease:"


@dataclass(frozen=True, slots=True)
class Guard:
    """The durable record of one admitted callback (run.callback-guard.identity).

    `protected` are rows as `owner:<scope>` and `lease:<key>`; `covered_until` is the end of the destination's window,
    counted from the entry's first admission, None where it declares none. `window_ms` is the window as declared.
    """

    token: str
    protected: tuple[str, ...]
    scope: str
    execution_id: str
    attempt: str
    holder: str
    step: str
    input: str
    idempotency_key: str
    kind: Kind
    destination: str
    window_ms: int | None
    admitted_at: int
    covered_until: int | None

    @property
    def scopes(self) -> tuple[str, ...]:
        """The owner scopes it protects."""
        return tuple(row.removeprefix(OWNER) for row in self.protected if row.startswith(OWNER))

    @property
    def leases(self) -> tuple[str, ...]:
        """The lease keys it protects, entity fences included."""
        return tuple(row.removeprefix(LEASE) for row in self.protected if row.startswith(LEASE))

    @classmethod
    def of(cls, record: dict[str, Any]) -> Self:
        """The guard that `record` was made of."""
        return cls(**record | {"protected": tuple(record["protected"]), "kind": Kind(record["kind"])})

    @property
    def record(self) -> dict[str, Any]:
        """Every field as it stands, for an audit row."""
        return asdict(self) | {"protected": list(self.protected), "kind": str(self.kind)}

    def window(self, now: int) -> Window:
        """Where the destination's window stands."""
        return window(covered_until=self.covered_until, now=now)

    def evidence_class(self, now: int) -> EvidenceClass:
        """What it takes to release it by hand (run.callback-guard.class)."""
        return CLASSES[self.window(now), self.kind]

    def projection(self, now: int) -> dict[str, Any]:
        """The guard as every surface shows it: instants as text, the window in seconds."""
        return {
            "token": self.token,
            "scopes": list(self.scopes),
            "leases": list(self.leases),
            "scope": self.scope,
            "execution_id": self.execution_id,
            "attempt": self.attempt,
            "holder": self.holder,
            "entry": {"step": self.step, "input": self.input},
            "idempotency_key": self.idempotency_key,
            "kind": str(self.kind),
            "destination": self.destination,
            "window": None if self.window_ms is None else self.window_ms / 1000,
            "admitted_at": instant(self.admitted_at),
            "covered_until": instant(self.covered_until),
            "evidence_class": str(self.evidence_class(now)),
        }


@dataclass(frozen=True, slots=True)
class Standing:
    """A guard with what else decides about it at `now`, all read in one batch.

    `lease_until` is the end of the lease of the attempt the guard names, 0 where that attempt holds none any more.
    """

    guard: Guard
    lease_until: int
    holder_exited_at: int | None
    now: int

    @property
    def ways(self) -> Ways:
        """What may release it, and what a transfer meets."""
        holder = Holder.PRESENT if self.holder_exited_at is None else Holder.GONE
        return WAYS[holder, self.lease, self.guard.window(self.now)]

    @property
    def lease(self) -> Lease:
        """Whether the attempt's lease runs."""
        return lease(until=self.lease_until, now=self.now)

    @property
    def evidence_class(self) -> EvidenceClass:
        """What it takes to release it by hand."""
        return self.guard.evidence_class(self.now)

    def projection(self) -> dict[str, Any]:
        """The guard as `storage guard --json` shows it."""
        return self.guard.projection(self.now) | {
            "owner_lease_expires_at": instant(self.lease_until or None),
            "holder_exited_at": instant(self.holder_exited_at),
        }
