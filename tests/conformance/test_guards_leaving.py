"""A request leaves only while its guard covers it: however long finding and reaching the host took, whoever keeps the
client, and whatever ends the call."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from engine.errors import EffectOverdue, ExecutionTransferBlocked, StepFailed
from engine.execution.cover import MARGIN_MS
from tests.destinations import Vendor
from tests.guarded import HOUR, ONCE, engine_for, guards
from tests.stores import LEASE, Died, Effect, Store, died

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.execution.call import Call
    from tests.clocks import SettableClock

TIMEOUT_S = 0.5
TO_COME = 2
"""Once there is a connection, a request may take its timeout twice more: to be written, and until it is answered."""


@pytest.fixture
def destination(clock: SettableClock) -> Iterator[Vendor]:
    with Vendor(clock.elapsed, window=HOUR).serving() as serving:
        yield serving


def reaching(destination: Vendor, monkeypatch: pytest.MonkeyPatch, *, meanwhile: Callable[[], object]) -> None:
    """Let something happen while `destination` is reached for: a resolver is slow, a host lets one wait."""
    connect, port = socket.create_connection, httpx.URL(destination.url).port

    def slow(address: tuple[str, int], *arguments: Any, **options: Any) -> socket.socket:
        if address[1] == port:
            meanwhile()
        return connect(address, *arguments, **options)

    monkeypatch.setattr(socket, "create_connection", slow)


def sends(destination: Vendor) -> Callable[[Call], Any]:
    return lambda call: destination.send(call, timeout=TIMEOUT_S)


@pytest.mark.clause("run.callback-guard.window")
@pytest.mark.parametrize("short", [0, 1])
@pytest.mark.parametrize("ends", ["window", "lease"])
def test_the_cover_is_asked_again_when_the_host_is_reached(
    store: Store, destination: Vendor, monkeypatch: pytest.MonkeyPatch, ends: str, short: int
) -> None:
    """Neither the resolver's time nor that of several addresses is bounded by a timeout of the request."""
    window = 20_000 if ends == "window" else HOUR
    until = window - int(TIMEOUT_S * 1000) * TO_COME if ends == "window" else LEASE
    execution = store.open(engine=engine_for(store, window=window, stalls=True))
    reaching(destination, monkeypatch, meanwhile=lambda: store.clock.advance(until - MARGIN_MS - short))

    if short:
        execution.step("send", sends(destination), schedule=ONCE, destination="vendor")
    else:
        with pytest.raises(StepFailed) as failed:
            execution.step("send", sends(destination), schedule=ONCE, destination="vendor")
        assert isinstance(failed.value.failure, EffectOverdue)

    assert len(destination.received) == short
    assert guards(store) == []


@pytest.mark.clause("run.callback-guard.window", "run.callback-guard.acquire")
def test_a_client_kept_past_its_call_sends_nothing_more(store: Store, destination: Vendor) -> None:
    kept: list[httpx.Client] = []

    def effect(call: Call) -> Any:
        kept.append(call.http)
        return destination.send(call, timeout=TIMEOUT_S)

    execution = store.open(engine=engine_for(store))
    execution.step("send", effect, destination="vendor")

    with pytest.raises(EffectOverdue, match="its call has returned"):
        kept[0].post(destination.url)

    assert len(destination.received) == 1


@pytest.mark.clause("run.callback-guard.window", "run.callback-guard.acquire")
def test_a_request_under_way_when_its_call_returns_does_not_leave(
    store: Store, destination: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread of the effect's own is still reaching for the host when the effect returns."""
    reaches, returned = threading.Event(), threading.Event()
    raised: list[BaseException] = []
    threads: list[threading.Thread] = []

    def wait() -> None:
        reaches.set()
        assert returned.wait(30)

    reaching(destination, monkeypatch, meanwhile=wait)
    execution = store.open(engine=engine_for(store))

    def leaves_behind(call: Call) -> str:
        client, carried = call.http, execution._held.outbound.carried

        def post() -> None:
            try:
                client.post(destination.url)
            except EffectOverdue as overdue:
                raised.append(overdue)

        thread = threading.Thread(target=carried(post))
        threads.append(thread)
        thread.start()
        assert reaches.wait(30)
        return "returned"

    assert execution.step("send", leaves_behind, destination="vendor") == "returned"
    returned.set()
    threads[0].join()

    assert [type(each) for each in raised] == [EffectOverdue]
    assert destination.received == []


@pytest.mark.clause("run.callback-guard.release")
@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_a_call_that_is_ended_from_outside_ended_without_an_answer(store: Store, end: type[BaseException]) -> None:
    """Within its window the guard is released; without one it stands, and the attempt is told so."""

    def ended(_: Call) -> None:
        raise end

    windowed = store.open("windowed", engine=engine_for(store))
    with pytest.raises(end):
        windowed.step("send", ended, destination="vendor")
    assert guards(store) == []

    bare = store.open("bare", engine=engine_for(store, window=None))
    with pytest.raises(ExecutionTransferBlocked):
        bare.step("send", ended, destination="vendor")
    assert [guard.scope for guard in guards(store)] == ["host:bare"]


@pytest.mark.clause("run.callback-guard.acquire")
def test_a_call_that_ended_in_no_known_way_is_not_waited_for(store: Store) -> None:
    """Its guard stands as after a crash, and whoever meets it is told so at once."""
    execution = store.open(engine=engine_for(store))
    with pytest.raises(Died):
        execution.step("send", died, destination="vendor")

    with pytest.raises(ExecutionTransferBlocked):
        execution.step("other", Effect(), destination="vendor")

    assert [guard.step for guard in guards(store)] == ["send"]
