"""The guards that stand, as every profile's catalog keeps them: looked up, and told to whoever meets one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.errors import ExecutionGuardUnknown, ExecutionTransferBlocked
from engine.guards.guard import OWNER, Guard, Standing
from engine.guards.rules import Kind
from engine.sql import call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from engine.ports import Database, Row, Rows


class Guards:
    """Reads guards together with what decides about them: lease, exit and the store's instant, in one batch."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def all(self) -> list[Standing]:
        """Every guard that stands, the oldest first (run.callback-guard.inspect)."""
        return standing(self._db.run(call("list_guards"))[0])

    def get(self, token: str) -> Standing:
        """The guard `token`. Raise `ExecutionGuardUnknown` where it does not stand."""
        found = standing(self._db.run(call("find_guard", token=token))[0])
        if not found:
            raise ExecutionGuardUnknown(token=token)
        return found[0]

    def stands(self, token: str) -> bool:
        """Whether the guard `token` stands."""
        return bool(self._db.run(call("find_guard", token=token))[0])

    def protecting(self, scope: str) -> Standing | None:
        """The guard that protects the owner of `scope`."""
        found = standing(self._db.run(call("find_protecting", protected=OWNER + scope))[0])
        return found[0] if found else None

    def blocking(self, protected: str) -> ExecutionTransferBlocked | None:
        """What to raise for a transfer or a retirement of the row `protected`, where a guard stands in its way."""
        rows, meta = self._db.run(call("find_protecting", protected=protected), call("read_meta"))
        found = standing(rows)
        known: dict[str, str] = dict(meta)
        return blocked(found[0], row=protected, project=known["project"]) if found else None


def blocked(found: Standing, *, row: str, project: str) -> ExecutionTransferBlocked:
    """The refusal of a transfer of the row, naming the guard and what would release it (run.callback-guard.blocked)."""
    return ExecutionTransferBlocked(
        token=found.guard.token,
        evidence_class=str(found.evidence_class),
        scope=row.removeprefix(OWNER),
        destination=found.guard.destination,
        idempotency_key=found.guard.idempotency_key,
        project=project,
    )


def standing(rows: Rows) -> list[Standing]:
    """The guards in `rows` of one of the statements that list them, a row a protected row, in their order."""
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row[1], []).append(row)
    return [_standing(each) for each in grouped.values()]


def _standing(rows: Iterable[Row]) -> Standing:
    first, *_ = rows = list(rows)
    _, token, scope, execution_id, attempt, holder, step, key, idempotency_key, kind, destination, *times = first
    window_ms, admitted_at, covered_until, lease_until, exited_at, now = times
    guard = Guard(
        token,
        tuple(row[0] for row in rows),
        scope,
        execution_id,
        attempt,
        holder,
        step,
        key,
        idempotency_key,
        Kind(kind),
        destination,
        window_ms,
        admitted_at,
        covered_until,
    )
    return Standing(guard, lease_until, exited_at, now)
