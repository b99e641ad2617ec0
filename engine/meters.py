"""Meters: how much of a quota is left, answered at once and shared by every process of a store.

A quota grants at most `limit` permits within any stretch of `every_ms`, wherever the stretch begins: the window slides,
so that no border between two windows lets twice as much through.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import Config, RateLimited
from engine.sql import call

if TYPE_CHECKING:
    from engine.ports import Database, Meter


@dataclass(frozen=True, slots=True)
class Quota:
    """At most `limit` permits in any `every_ms` milliseconds, counted under `name`."""

    name: str
    limit: int
    every_ms: int


@dataclass(frozen=True, slots=True)
class Reply:
    """What a meter answers: granted, or denied with the milliseconds after which it is worth asking again."""

    granted: bool
    wait_ms: int = 0


class SqlMeter:
    """A `Meter` in the store's own database, by the store's clock."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def acquire(self, quota: Quota, n: int) -> Reply:
        """Take `n` permits, or none. Raise `Config` for more than the quota ever grants."""
        if not 1 <= n <= quota.limit:
            raise Config(f"{n} permits are asked of {quota.name}, which grants 1 to {quota.limit} at a time")
        asked = {"quota": quota.name, "permits": n, "most": quota.limit, "every_ms": quota.every_ms}
        *_, granted, wait = self._db.run(
            call("forget_permits", **asked), call("grant_permits", **asked), call("free_permits", **asked)
        )
        return Reply(granted=True) if granted else Reply(granted=False, wait_ms=wait[0][0])


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of one source: a permit before each of its pulls."""

    meter: Meter
    quota: Quota

    def step(self) -> None:
        """Take one permit.

        Raise `RateLimited` carrying the wait where there is none: the step's schedule sits it out, the meter never
        does (run.retry.one-layer).
        """
        reply = self.meter.acquire(self.quota, 1)
        if not reply.granted:
            per = f"{self.quota.limit} in {self.quota.every_ms / 1000:g} s"
            raise RateLimited(f"the meter {self.quota.name} ({per}) has no permit left", wait_ms=reply.wait_ms)


def paced(database: Database, quota: Quota | None) -> Pace | None:
    """The pace of a source with `quota`, counted in `database`; None for a source without one."""
    return None if quota is None else Pace(SqlMeter(database), quota)
