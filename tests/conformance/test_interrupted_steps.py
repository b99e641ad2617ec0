"""A step whose caller is ended from outside: its claim is nobody's any more, and what ended it goes on untouched."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from engine.errors import StorageUnusable, Transient
from tests.destinations import HANG_UP, Vendor
from tests.guarded import HOUR, TWICE, opened
from tests.stores import Effect, Store, failing
from tests.waits import soon

if TYPE_CHECKING:
    from engine.execution.call import Call
    from tests.clocks import SettableClock

ENDS = [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError]


def interrupted(end: BaseException) -> Effect:
    """An effect whose first call is ended by `end`."""

    def answer() -> str:
        if effect.calls == 1:
            raise end
        return "done"

    effect = Effect(answer)
    return effect


@pytest.mark.clause("run.journal.entry-key", "run.journal.idempotency-key")
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("destination", [None, "vendor"])
def test_a_step_that_was_interrupted_is_done_when_it_is_called_again(
    store: Store, end: type[BaseException], destination: str | None
) -> None:
    execution, ended = opened(store, window=HOUR), end()
    effect = interrupted(ended)
    with pytest.raises(end) as passed:
        execution.step("send", effect, destination=destination)

    value = execution.step("send", effect, destination=destination)

    assert passed.value is ended
    assert (value, effect.attempts, len(set(effect.keys))) == ("done", [1, 1], 1)


@pytest.mark.clause("run.retry.not-before")
@pytest.mark.parametrize("destination", [None, "vendor"])
def test_a_step_that_was_interrupted_between_its_tries_goes_on_with_the_next(
    store: Store, clock: SettableClock, destination: str | None
) -> None:
    execution, effect = opened(store, window=HOUR), Effect(failing(Transient("away")))
    clock.interrupt(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        execution.step("send", effect, schedule=TWICE, destination=destination)

    value = execution.step("send", effect, schedule=TWICE, destination=destination)

    assert (value, effect.attempts) == ("done", [1, 2])


@pytest.mark.clause("run.journal.entry-key")
def test_a_sibling_that_waits_for_an_interrupted_step_does_it(store: Store, clock: SettableClock) -> None:
    execution, begun, waits = store.open(), threading.Event(), threading.Event()

    def ended() -> None:
        begun.set()
        assert waits.wait(30)
        raise KeyboardInterrupt

    with clock.standing(), ThreadPoolExecutor(2) as pool:
        first = pool.submit(execution.step, "send", Effect(ended))
        assert begun.wait(30)
        second = pool.submit(execution.step, "send", Effect("done"))
        assert soon(lambda: bool(clock.waits))
        waits.set()

        assert isinstance(first.exception(30), KeyboardInterrupt)
        assert second.result(30) == "done"


@pytest.mark.clause("run.journal.entry-key")
def test_an_interrupt_that_the_store_cannot_be_told_of_passes_all_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise StorageUnusable(place="here", reason="it is gone")

    execution, effect = store.open(), interrupted(KeyboardInterrupt())
    with monkeypatch.context() as patch:
        patch.setattr(store.here.profile.journal, "park", away)
        with pytest.raises(KeyboardInterrupt):
            execution.step("send", effect)

    assert execution.step("send", effect) == "done"


@pytest.mark.clause("run.journal.idempotency-key")
def test_a_first_step_interrupted_after_a_request_without_an_answer_keeps_its_key(
    store: Store, clock: SettableClock
) -> None:
    def charge(call: Call) -> int:
        try:
            return call.http.post(vendor.url).status_code
        except Exception:
            raise KeyboardInterrupt from None

    with Vendor(clock.now, window=HOUR).serving() as vendor:
        vendor.script = [HANG_UP]
        with pytest.raises(KeyboardInterrupt), store.open() as first:
            first.step("charge", charge)
        with store.open() as second:
            second.step("charge", charge)

        assert second.execution_id == first.execution_id
        assert len(vendor.received) == 2
        assert len(set(vendor.received)) == 1
