"""What tests of the operator's routes say and read: evidence, values, names of errors, and the step of the dead."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from tests.edge.operators import BEHIND
from tests.guarded import HOUR, engine_for, recorded_bytes

if TYPE_CHECKING:
    from engine.guards.guard import Guard
    from tests.edge.operators import Door
    from tests.stores import Effect


def receipt(guard: Guard, name: str = "ch_1") -> str:
    return f"receipt:{guard.idempotency_key}:{name}"


def inline(value: Any) -> dict[str, str]:
    return {"b64": base64.b64encode(recorded_bytes(value)).decode()}


def names(answer: Any) -> str:
    found: str = answer.json()["error"]["name"]
    return found


def resumed(door: Door, effect: Effect, *, window: int | None = HOUR) -> Any:
    """What the step is to the next engine that opens the scope of the dead, when its lease has lapsed."""
    store = door.stores[-1]
    store.clock.advance(BEHIND + 60_000)
    with engine_for(store, window=window) as engine, store.open(engine=engine) as execution:
        return execution.step("send", effect, destination="vendor")
