"""Nothing is sent unless lease and window are known to cover, by this machine's own time and with a margin."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import Canceled, EffectOverdue, ExecutionSuperseded, ExecutionTransferBlocked, StepFailed, Transient
from engine.execution.cover import MARGIN_MS
from engine.shapes import EntryKey
from engine.sql import call as sql
from tests.clocks import SettableClock
from tests.destinations import Vendor
from tests.guarded import HOUR, ONCE, desk, engine_for, guards, receipt, vendor
from tests.stores import LEASE, Effect, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.execution.call import Call
    from engine.execution.execution import Execution

DAY = 24 * HOUR
PHASES = 4
"""A request may take its timeout in each: for a connection, to connect, to write and to read."""


class Jumping(SettableClock):
    """A clock that people set: its instant jumps, and what has elapsed does not."""

    def __init__(self, start: int = 1_800_000_000_000) -> None:
        super().__init__(start)
        self.jumped = 0

    def elapsed(self) -> int:
        return super().now()

    def now(self) -> int:
        return super().now() + self.jumped


@pytest.fixture
def clock() -> Jumping:
    return Jumping()


@pytest.fixture
def destination(clock: Jumping) -> Iterator[Vendor]:
    with Vendor(clock.elapsed, window=HOUR).serving() as serving:
        yield serving


def opened(store: Store, *, window: int | None = HOUR, stalls: bool = True) -> Execution:
    return store.open(engine=engine_for(store, window=window, stalls=stalls))


def tries(execution: Execution, effect: Callable[[Call], Any]) -> Exception | None:
    """What one try of a step comes to: what it raised, None for a value."""
    try:
        execution.step("send", effect, schedule=ONCE, destination="vendor")
    except (StepFailed, ExecutionTransferBlocked) as raised:
        return getattr(raised, "failure", raised)
    return None


def sends_after(store: Store, destination: Vendor, milliseconds: int) -> Callable[[Call], Any]:
    def effect(call: Call) -> Any:
        store.clock.advance(milliseconds)
        return destination.send(call, timeout=0.5)

    return effect


@pytest.mark.clause("run.callback-guard.window", "run.journal.current-owner")
@pytest.mark.parametrize("short", [0, 1])
def test_a_request_leaves_only_under_a_lease_that_runs_a_margin_longer(
    store: Store, destination: Vendor, short: int
) -> None:
    execution = opened(store)

    raised = tries(execution, sends_after(store, destination, LEASE - MARGIN_MS - short))

    assert isinstance(raised, EffectOverdue) is (short == 0)
    assert len(destination.received) == short
    assert guards(store) == []


@pytest.mark.clause("run.callback-guard.window")
@pytest.mark.parametrize("short", [0, 1])
def test_a_request_leaves_only_where_its_timeout_ends_a_margin_within_the_window(
    store: Store, destination: Vendor, short: int
) -> None:
    window = 20_000
    execution = opened(store, window=window)

    raised = tries(execution, sends_after(store, destination, window - MARGIN_MS - 500 * PHASES - short))

    assert isinstance(raised, EffectOverdue) is (short == 0)
    assert len(destination.received) == short
    assert guards(store) == []


@pytest.mark.clause("run.callback-guard.window")
@pytest.mark.parametrize(("window", "leaves"), [(HOUR, 0), (5 * DAY, 1), (None, 1)])
def test_a_request_without_a_timeout_leaves_only_where_no_window_can_end_before_it(
    store: Store, destination: Vendor, window: int | None, leaves: int
) -> None:
    raised = tries(opened(store, window=window), lambda call: destination.send(call, timeout=None))  # type: ignore[arg-type] # none

    assert isinstance(raised, EffectOverdue) is (leaves == 0)
    assert len(destination.received) == leaves


@pytest.mark.clause("run.callback-guard.window")
@pytest.mark.parametrize("window", [MARGIN_MS, MARGIN_MS + 1])
def test_an_effect_is_not_even_begun_where_nothing_it_sends_could_be_covered(store: Store, window: int) -> None:
    effect = Effect()

    raised = tries(opened(store, window=window), effect)

    assert isinstance(raised, EffectOverdue) is (window == MARGIN_MS)
    assert effect.calls == (window > MARGIN_MS)
    assert guards(store) == []


@pytest.mark.clause("run.callback-guard.window")
def test_what_was_not_sent_ends_its_admission_and_is_sent_by_a_later_try(store: Store, destination: Vendor) -> None:
    assert store.entries("nobody") == []  # the engine that looks is there before the lease lapses, and reaps nothing
    execution = opened(store)
    tries(execution, sends_after(store, destination, LEASE))
    (entry,) = store.entries(execution.execution_id)

    raised = tries(execution, destination.send)

    assert (entry.doubts, entry.admitted_at) == (0, None)
    assert raised is None
    assert len(destination.executed) == 1


@pytest.mark.clause("run.callback-guard.window")
@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_a_clock_that_jumps_while_a_callback_is_out_lengthens_nothing(
    store: Store, destination: Vendor, clock: Jumping, jump: int
) -> None:
    execution = opened(store)

    def effect(call: Call) -> Any:
        clock.jumped += jump
        clock.advance(LEASE - MARGIN_MS)
        return destination.send(call)

    raised = tries(execution, effect)

    assert isinstance(raised, EffectOverdue)
    assert destination.received == []


@pytest.mark.clause("run.callback-guard.window")
@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_a_clock_that_jumps_keeps_nothing_from_leaving_that_is_covered(
    store: Store, destination: Vendor, clock: Jumping, jump: int
) -> None:
    execution = opened(store)

    def effect(call: Call) -> Any:
        clock.jumped += jump
        return destination.send(call)

    assert tries(execution, effect) is None
    assert len(destination.executed) == 1


@pytest.mark.clause("run.callback-guard.window")
@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_an_unanswered_call_is_let_go_only_where_both_clocks_say_that_its_window_covers(
    store: Store, clock: Jumping, jump: int
) -> None:
    execution = opened(store)

    def effect() -> None:
        clock.jumped += jump
        if jump < 0:
            clock.advance(HOUR)
        raise Transient("no answer")

    assert isinstance(tries(execution, Effect(effect)), ExecutionTransferBlocked)
    assert len(guards(store)) == 1


@pytest.mark.clause("run.callback-guard.manual", "run.journal.current-owner")
def test_a_stalled_engine_that_renews_after_its_guard_was_released_by_hand_sends_nothing(
    store: Store, destination: Vendor
) -> None:
    execution = opened(store, window=None)
    engine = execution._room

    def effect(call: Call) -> Any:
        store.clock.advance(LEASE)
        (guard,) = guards(store)
        desk(store).reconcile(guard.token, evidence=receipt(guard, "absent"), operator="ops")
        engine.leases.register()
        return destination.send(call)

    with pytest.raises(ExecutionSuperseded):
        execution.step("send", effect, destination="vendor")

    assert destination.received == []


@pytest.mark.clause("run.callback-guard.holder-gone", "run.callback-guard.release")
def test_an_engine_that_is_leaving_sends_nothing_more_and_withdraws_what_it_was_admitted(
    store: Store, destination: Vendor
) -> None:
    engine = engine_for(store, window=None)
    first, second = store.open("first", engine=engine), store.open("second", engine=engine)

    def effect() -> None:
        assert not engine.leases.exit(), "a callback is at work"
        raised: list[BaseException] = []
        thread = threading.Thread(target=_caught, args=(second, destination, raised))
        thread.start()
        thread.join(30)
        assert isinstance(raised[0], StepFailed)
        assert isinstance(raised[0].failure, Canceled)

    first.step("send", Effect(effect), destination="vendor")

    assert destination.received == []
    assert guards(store) == []


def _caught(execution: Execution, destination: Vendor, raised: list[BaseException]) -> None:
    """Go on with a step that was asked for just before the engine began to leave."""
    held = execution._held
    key, course = EntryKey(held.attempt.execution_id, "send", "in"), held.effects(vendor(window=None))
    try:
        held.steps.run(key, destination.send, schedule=ONCE, course=course)
    except BaseException as error:
        raised.append(error)


@pytest.mark.clause("run.callback-guard.holder-gone")
def test_a_renewal_after_the_recorded_exit_lengthens_nothing(store: Store, destination: Vendor) -> None:
    execution = opened(store)
    engine = execution._room

    def effect(call: Call) -> Any:
        store.clock.advance(LEASE - MARGIN_MS - 1)
        store.here.profile.database.run(sql("exit_holder", holder=engine.leases.holder))
        engine.leases.register()
        store.clock.advance(1)
        return destination.send(call)

    assert isinstance(tries(execution, effect), EffectOverdue)
    assert destination.received == []


@pytest.mark.clause("run.callback-guard.window")
@pytest.mark.parametrize("first", ["checked", "a program"])
def test_what_is_refused_to_leave_after_something_was_let_go_is_not_taken_for_unsent(store: Store, first: str) -> None:
    execution = opened(store, window=None)

    def effect(call: Call) -> None:
        if first == "checked":
            call.check()
        else:
            call.run(["true"])
        store.clock.advance(LEASE)
        call.check()

    assert isinstance(tries(execution, effect), ExecutionTransferBlocked)
    assert len(guards(store)) == 1


@pytest.mark.clause("run.callback-guard.window", "run.callback-guard.holder-gone")
@pytest.mark.parametrize(("window", "left"), [(None, LEASE), (20_000, 20_000), (HOUR, LEASE)])
def test_a_program_is_started_only_while_covered_and_told_for_how_long_it_may_send(
    store: Store, window: int | None, left: int
) -> None:
    execution = opened(store, window=window)
    told: list[bytes] = []

    def effect(call: Call) -> None:
        store.clock.advance(1_000)
        told.append(call.run(["sh", "-c", "printf $CONTEXTFUL_SEND_WITHIN_MS"]).checked().out)

    def late(call: Call) -> None:
        store.clock.advance(left - MARGIN_MS)
        told.append(call.run(["sh", "-c", "printf sent"]).checked().out)

    execution.step("soon", effect, destination="vendor")
    store.clock.advance(-1_000)

    assert isinstance(tries(execution, late), EffectOverdue)
    assert told == [str(left - MARGIN_MS - 1_000).encode()]
    assert guards(store) == []
