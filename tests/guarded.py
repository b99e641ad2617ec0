"""Words for tests of calls under guards: who called and died, what stands, and what an operator sees and does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from engine.execution import values
from engine.guards.asked import Admitted, Asked, Fence
from engine.guards.desk import Desk
from engine.guards.rules import Kind
from engine.guards.store import Guards
from engine.pins import Pins
from engine.pipeline.declaration import Destination
from engine.schedule import Schedule
from engine.shapes import EntryKey
from engine.sql import call
from tests.stores import LEASE, Died, Effect

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.execution.execution import Execution
    from engine.execution.held import Held
    from engine.guards.guard import Guard, Standing
    from engine.host import Engine
    from engine.ports import Call, Database, Rows
    from tests.stores import Store

HOUR: Final = 3_600_000
ONCE: Final = Schedule(attempts=1)
TWICE: Final = Schedule(attempts=2, base_ms=1_000, jitter_ms=0)


def vendor(
    *, url: str = "http://vendor.test", window: int | None = HOUR, refusals: tuple[int, ...] = ()
) -> Destination:
    return Destination("vendor", url, dedup_window_ms=window, refusals=refusals)


def engine_for(store: Store, *, window: int | None = HOUR, stalls: bool = False, **options: Any) -> Engine:
    """An engine that knows the destination `vendor`; one that stalls renews nothing."""
    make = store.stalled if stalls else store.engine
    return make(destinations={"vendor": vendor(window=window, **options)})


def desk(store: Store) -> Desk:
    profile = store.here.profile
    return Desk(profile.database, profile.admission)


def opened(store: Store, *, window: int | None, refusals: tuple[int, ...] = ()) -> Execution:
    """An execution whose destination has this window and says by these statuses that it did nothing."""
    return store.open(engine=engine_for(store, window=window, refusals=refusals))


def doubts(store: Store, execution: Execution) -> list[int]:
    """How many admissions of each of its entries have no answer yet."""
    return [entry.doubts for entry in store.entries(execution.execution_id)]


def standing(store: Store) -> list[Standing]:
    return Guards(store.here.profile.database).all()


def guards(store: Store) -> list[Guard]:
    return [each.guard for each in standing(store)]


def exits(store: Store, engine: Engine) -> None:
    """Record that nothing is left of `engine`'s process, as the serve process above it does."""
    engine.keeper.stop()
    store.here.profile.database.run(call("exit_holder", holder=engine.leases.holder))


@dataclass
class Overtaken:
    """A store where something happens just before the next batch that holds the statement `name`."""

    real: Database
    name: str
    first: Callable[[], object] | None

    def run(self, *calls: Call) -> list[Rows]:
        if self.first and self.name in [each.statement.name for each in calls]:
            happens, self.first = self.first, None
            happens()
        return self.real.run(*calls)

    def now(self) -> int:
        return self.real.now()


@dataclass
class Dead:
    """An engine that went while its callback was out: what it held, and the guard it left."""

    engine: Engine
    execution: Execution
    guard: Guard
    keys: list[str] = field(default_factory=list)


def died_sending(
    store: Store, scope: str = "job", *, window: int | None = HOUR, step: str = "send", gone: bool = False
) -> Dead:
    """An engine died inside the callback of `step`; its lease runs on, and its exit is recorded only where `gone`."""
    engine = engine_for(store, window=window, stalls=True)
    execution = store.open(scope, engine=engine)
    effect = Effect(_dies)
    with pytest.raises(Died):
        execution.step(step, effect, destination="vendor")
    if gone:
        exits(store, engine)
    (guard,) = [each for each in guards(store) if each.execution_id == execution.execution_id]
    return Dead(engine, execution, guard, effect.keys)


def left_sending(store: Store, scope: str = "job", *, window: int | None = HOUR, step: str = "send") -> Dead:
    """As `died_sending`, a lease's life ago and with the exit recorded."""
    dead = died_sending(store, scope, window=window, step=step, gone=True)
    store.clock.advance(LEASE)
    return dead


def _dies() -> None:
    raise Died


def internal(engine: Engine, scope: str) -> Held:
    """Hold an owner on the internal scope `scope`, such as a job's or an item's."""
    run = engine.new_run(engine.chance.run_id(), plan_ref="plan-a")
    return engine.hold(scope, Pins("plan-a"), run=run)


def asked(
    engine: Engine,
    held: Held,
    *,
    step: str = "send",
    label: str = "in",
    above: tuple[Held, ...] = (),
    fences: tuple[Fence, ...] = (),
    window: int | None = HOUR,
    kind: Kind = Kind.EFFECT,
) -> Asked:
    """What a callback of `held` asks for under the owners above it and the leases it works under."""
    return Asked(
        engine.chance.guard_token(),
        EntryKey(held.attempt.execution_id, step, label),
        held.attempt,
        f"{held.attempt.run_id}.{step}",
        "vendor",
        window,
        kind,
        tuple(each.attempt for each in above),
        fences,
    )


def admitted(engine: Engine, held: Held, **wanted: Any) -> Admitted:
    """Admit a callback at the port, as the course of a step does."""
    found = engine.profile.admission.admit(asked(engine, held, **wanted))
    assert isinstance(found, Admitted)
    return found


def receipt(guard: Guard, identity: str = "ch_1") -> str:
    return f"receipt:{guard.idempotency_key}:{identity}"


def replayable(guard: Guard) -> str:
    return f"idempotency:{guard.idempotency_key}"


def recorded_bytes(value: Any) -> bytes:
    """`value` as a step records it."""
    return values.encode(value, step="send")


def reconcile(store: Store, guard: Guard, evidence: str, *, value: bytes | None = None) -> None:
    """Release the guard by hand."""
    desk(store).reconcile(guard.token, evidence=evidence, operator="ops", value=value)


def again(store: Store, dead: Dead, *, window: int | None = HOUR) -> tuple[object, list[str]]:
    """What the step of a dead engine returns to the next attempt, and the keys that were sent for it."""
    effect = Effect("again")
    value = store.open(engine=engine_for(store, window=window)).step(dead.guard.step, effect, destination="vendor")
    return value, effect.keys
