"""What is asked of a closed handle or engine is refused by its name, with what to do, and moves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import EngineClosed, ExecutionClosed
from tests.stores import LEASE, Effect, Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.execution.execution import Execution
    from tests.clocks import SettableClock

WORK: dict[str, Callable[[Execution], Any]] = {
    "a step": lambda execution: execution.step("two", Effect()),
    "a recorded step": lambda execution: execution.step("one", Effect()),
    "a join": lambda execution: execution.join("both", {"left": lambda branch: branch.step("two", Effect())}),
    "a wait": lambda execution: execution.wait("approval", ttl="1h"),
    "an unrecorded read": lambda execution: execution.journal.unsafe("look", dict, because="it only reads"),
}


@pytest.mark.clause("run.own.retirement")
@pytest.mark.parametrize("work", WORK)
def test_a_closed_handle_says_that_it_is_closed_and_not_that_it_was_overtaken(store: Store, work: str) -> None:
    execution = store.open()
    execution.step("one", Effect())
    execution.close()

    with pytest.raises(ExecutionClosed, match="open the scope again") as refusal:
        WORK[work](execution)

    assert (refusal.value.scope, refusal.value.attempt) == ("host:job", execution.run_id)
    assert store.here.owners.all() == []


@pytest.mark.clause("run.own.unclosed-execution")
@pytest.mark.parametrize("work", [*WORK, "its close"])
def test_a_handle_that_outlives_its_engine_says_so_and_stays_pending(
    store: Store, clock: SettableClock, work: str
) -> None:
    engine = store.engine()
    execution = store.open(engine=engine)
    execution.step("one", Effect("first"))
    engine.close()

    with pytest.raises(EngineClosed, match=r"engine\.start\(\)"):
        (WORK | {"its close": lambda left: left.close()})[work](execution)

    clock.advance(LEASE)
    assert store.open().step("one", Effect("again")) == "first"


@pytest.mark.clause("run.own.unclosed-execution")
def test_what_broke_a_block_is_raised_and_not_that_its_engine_is_closed(store: Store) -> None:
    engine = store.engine()

    def lose() -> None:
        engine.close()
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"), store.open(engine=engine):
        lose()


@pytest.mark.parametrize("once", [False, True])
def test_a_closed_engine_opens_nothing_and_registers_no_holder(store: Store, once: bool) -> None:
    engine = store.engine()
    engine.close()

    with pytest.raises(EngineClosed, match="the engine is closed"):
        engine.open("job", plan="plan-a", once=once)

    assert store.owner() is None


def test_an_engine_may_be_closed_inside_its_own_block(store: Store) -> None:
    with store.engine() as engine:
        engine.close()


@pytest.mark.clause("run.journal.sqlite-stores")
def test_a_closed_file_says_that_it_was_closed_and_wants_no_repair(store: Store) -> None:
    if store.profile_name == "cloudflare-d1":
        pytest.skip("its database is no file")
    engine = store.engine()
    engine.close()

    with pytest.raises(EngineClosed) as refusal:
        engine.runs.since(0, ceiling=1)

    assert "repair" not in str(refusal.value)
