"""An engine over a database in D1 that loses answers, and what was sent may still arrive."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from engine.errors import ExecutionTransferBlocked, Refused, StepFailed, StorageBindingUnavailable
from engine.guards.admission import SqlAdmission
from engine.guards.store import Guards
from engine.host import Engine, Settings
from engine.journal import SqlJournal
from tests.d1.conftest import Lossy
from tests.guarded import ONCE, vendor
from tests.stores import PROJECT, Effect

if TYPE_CHECKING:
    from engine.execution.execution import Execution
    from engine.guards.guard import Guard
    from engine.ports import Call, Rows
    from engine.schedule import Schedule
    from tests.stores import Store


@dataclass
class Late(Lossy):
    """A `Lossy` whose batch that was not applied may still arrive."""

    held: list[tuple[Call, ...]] = field(default_factory=list)

    def run(self, *calls: Call) -> list[Rows]:
        if self.losing in [each.statement.name for each in calls] and not self.applies:
            self.held.append(calls)
        return super().run(*calls)

    def arrive(self) -> None:
        """Let what was sent and not applied be applied now, if it still can be."""
        for calls in self.held:
            with suppress(Refused):
                self.real.run(*calls)
        self.held.clear()


@dataclass
class Ground:
    """An engine over a database that loses answers."""

    store: Store
    database: Late
    engine: Engine

    def open(self, scope: str = "job") -> Execution:
        return self.store.open(scope, engine=self.engine)

    def guards(self) -> list[Guard]:
        return [each.guard for each in Guards(self.database.real).all()]

    def doubts(self, execution: Execution) -> list[int]:
        return [entry.doubts for entry in self.store.entries(execution.execution_id)]

    def sent(self, statement: str) -> int:
        return sum(statement in batch for batch in self.database.sent)


def ground(store: Store, *, window: int | None) -> Ground:
    profile = store.profile()
    database = Late(profile.database)  # type: ignore[arg-type] # D1's, under this profile
    journal = SqlJournal(database, profile.journal._blobs)  # type: ignore[attr-defined] # the profile's own
    profile = replace(profile, database=database, journal=journal, admission=SqlAdmission(database, journal))
    settings = Settings(PROJECT, "site-1", destinations={"vendor": vendor(window=window)})
    engine = Engine(profile, settings, clock=store.clock)
    store.opened.append(engine.keeper.stop)
    return Ground(store, database, engine)


def sends(execution: Execution, effect: Effect, *, schedule: Schedule = ONCE) -> Any:
    """The value of the step; where an answer was lost for good, what it raised."""
    try:
        return execution.step("send", effect, schedule=schedule, destination="vendor")
    except (StorageBindingUnavailable, StepFailed, ExecutionTransferBlocked) as raised:
        return raised


def warm(execution: Execution) -> None:
    execution.step("warm", Effect(), destination="vendor")
