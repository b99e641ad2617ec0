"""A store in D1 behind the real Worker, and a way to lose what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from d1.database import D1Database
from engine.awakeables import SqlAwakeables
from engine.clock import Chance
from engine.errors import StorageBindingUnavailable
from engine.journal import SqlJournal
from engine.owners import Owners
from engine.pins import Pins
from engine.shapes import RunStatus
from engine.sql import call
from tests.conftest import ON_EDGE, blank_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.ports import Call, Rows
    from engine.profile import Profile
    from engine.runs import RunRow
    from tests.clocks import SettableClock
    from tests.stores import Store


@pytest.fixture(params=[ON_EDGE])
def blank(request: pytest.FixtureRequest, tmp_path: Path, clock: SettableClock) -> Iterator[Store]:
    """A store in D1 that nobody has initialized."""
    yield from blank_store(request, tmp_path, clock)


@dataclass
class Lossy:
    """A `Database` in front of `real` that loses the answer to the next write that holds the statement `losing`."""

    real: D1Database
    losing: str | None = None
    applies: bool = True
    reads_too: bool = False
    sent: list[list[str]] = field(default_factory=list)

    def run(self, *calls: Call) -> list[Rows]:
        names = [each.statement.name for each in calls]
        self.sent.append(names)
        if self.losing in names:
            self.losing = None
            if self.applies:
                self.real.run(*calls)
            raise StorageBindingUnavailable(place="here", reason="the answer was dropped", applied="unknown")
        if self.reads_too and self.losing is None:
            raise StorageBindingUnavailable(place="here", reason="still dead", applied="no")
        return self.real.run(*calls)

    def now(self) -> int:
        return self.real.now()

    def lose(self, statement: str, *, applied: bool = True, dead_after: bool = False) -> None:
        self.sent.clear()
        self.losing, self.applies, self.reads_too = statement, applied, dead_after


@dataclass
class Desk:
    """The stores over a lossy database, as one engine has them."""

    database: Lossy
    profile: Profile
    store: Store
    journal: SqlJournal
    awakeables: SqlAwakeables
    owners: Owners

    def open(self, scope: str = "host:job", *, run_id: str = "r-1", plan: str = "plan") -> Any:
        self.register()
        return self.owners.open(scope, Pins(plan), run=self.run(run_id), holder="h-1")

    def run(self, run_id: str = "r-1") -> RunRow:
        return self.store.here.new_run(run_id, plan_ref="plan", host_scope="job")

    def ended(self, row: RunRow, status: RunStatus = RunStatus.SUCCESS) -> RunRow:
        return row.ended(status, at=self.database.now())

    def register(self) -> None:
        self.database.real.run(call("register_holder", holder="h-1", pid=1, boot_id="b", lease_ms=30_000))


@pytest.fixture
def desk(store: Store) -> Desk:
    """What an engine's stores are, over a database that may lose an answer."""
    profile = store.profile()
    assert isinstance(profile.database, D1Database)
    lossy = Lossy(profile.database)
    journal = SqlJournal(lossy, profile.journal._blobs)  # type: ignore[attr-defined] # the profile's own
    profile = replace(profile, database=lossy, journal=journal)
    return Desk(lossy, profile, store, journal, SqlAwakeables(lossy, journal), Owners(lossy, journal, Chance()))
