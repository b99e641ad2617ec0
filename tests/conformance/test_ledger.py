"""What an effect sends outside: under which key, and written down before its step is recorded."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import ExecutionSuperseded, StepFailed, StorageBindingUnavailable, Transient, Waiting
from engine.execution.steps import LONGEST_SLEEP_MS
from engine.pipeline.declaration import Destination
from engine.schedule import Schedule
from engine.sql import call
from tests.answering import Answering, listening
from tests.stores import LEASE, Died, Store, died, key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.execution.call import Call
    from engine.execution.held import Held
    from engine.execution.steps import Outcome
    from tests.clocks import SettableClock


@dataclass
class Vendor:
    """A server on this machine that keeps the headers of what it is asked."""

    url: str = ""
    asked: list[dict[str, str]] = field(default_factory=list)

    def charge(self, call: Call) -> int:
        return call.http.post(self.url).status_code


class _Handler(Answering):
    vendor: Vendor

    def reply(self) -> None:
        self.vendor.asked.append({name.lower(): value for name, value in self.headers.items()})
        self.answer(200, b"")


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    vendor = Vendor()
    with listening(_Handler, vendor=vendor) as url:
        vendor.url = f"{url}/charge"
        yield vendor


def ledger(store: Store, execution_id: str) -> list[tuple[str, bool, Any]]:
    """The step, whether it is settled and what was sent, of each intent."""
    rows = store.here.profile.database.run(call("list_requests", execution_id=execution_id))[0]
    return [(step, settled is not None, json.loads(sent or "null")) for _, _, _, step, _, _, settled, sent in rows]


@pytest.mark.clause("run.journal.ledger-settles-first")
def test_a_recorded_steps_requests_are_settled(store: Store, vendor: Vendor) -> None:
    execution = store.open()

    execution.step("charge", vendor.charge)
    execution.step("plain", lambda _: 1)

    assert ledger(store, execution.execution_id) == [
        ("charge", True, [{"method": "POST", "url": vendor.url, "status": 200}])
    ]


@pytest.mark.clause("run.journal.ledger-settles-first")
def test_a_record_that_is_refused_leaves_its_requests_settled(
    store: Store, vendor: Vendor, clock: SettableClock
) -> None:
    stalled = store.elsewhere()

    def charge_and_stall(call: Call) -> int:
        status = vendor.charge(call)
        clock.advance(LEASE)
        store.open()
        return status

    with pytest.raises(ExecutionSuperseded):
        stalled.step("charge", charge_and_stall)

    assert [settled for _, settled, _ in ledger(store, stalled.execution_id)] == [True]
    assert store.recorded(stalled.execution_id) == []


@pytest.mark.clause("run.journal.ledger-settles-first")
def test_a_crash_after_the_answer_leaves_the_intent_unsettled_and_the_step_unrecorded(
    store: Store, vendor: Vendor
) -> None:
    execution = store.open()

    def charge_and_die(call: Call) -> None:
        vendor.charge(call)
        died(call)

    with pytest.raises(Died):
        execution.step("charge", charge_and_die)

    assert [settled for _, settled, _ in ledger(store, execution.execution_id)] == [False]
    assert store.recorded(execution.execution_id) == []


@pytest.mark.clause("run.journal.ledger-settles-first")
def test_a_failed_effects_requests_are_settled_too(store: Store, vendor: Vendor) -> None:
    execution = store.open()

    def charge_and_fail(call: Call) -> None:
        vendor.charge(call)
        raise ValueError("the answer makes no sense")

    with pytest.raises(StepFailed):
        execution.step("charge", charge_and_fail)

    assert [settled for _, settled, _ in ledger(store, execution.execution_id)] == [True]


def sent(held: Held, effect: Callable[[Call], bytes | None]) -> Outcome:
    """The step `one` of `held`, of which it is known ahead that its effect sends."""
    return held.steps.run(key(held), effect, schedule=Schedule(base_ms=1, jitter_ms=0), sends=True)


@pytest.mark.clause("run.journal.ledger-settles-first")
def test_the_intent_of_an_effect_that_is_known_to_send_is_there_before_it_begins(store: Store, vendor: Vendor) -> None:
    """The intent joins the claim: nothing else is written before the request leaves."""
    held = store.held()
    seen: list[Any] = []

    def charge(call: Call) -> bytes:
        seen.append(ledger(store, held.attempt.execution_id))
        vendor.charge(call)
        seen.append(ledger(store, held.attempt.execution_id))
        return b"charged"

    sent(held, charge)

    assert seen == [[("one", False, None)]] * 2
    assert ledger(store, held.attempt.execution_id) == [
        ("one", True, [{"method": "POST", "url": vendor.url, "status": 200}])
    ]


@pytest.mark.clause("run.journal.ledger-settles-first")
def test_a_replay_of_what_was_known_to_send_leaves_no_intent_open(store: Store, vendor: Vendor) -> None:
    held = store.held()
    sent(held, lambda call: b"%d" % vendor.charge(call))

    replayed = sent(held, died)

    assert (replayed.value, replayed.replayed, len(vendor.asked)) == (b"200", True, 1)
    intents = ledger(store, held.attempt.execution_id)
    assert sorted((settled, len(requests)) for _, settled, requests in intents) == [(True, 0), (True, 1)]


@pytest.mark.clause("run.journal.ledger-settles-first", "run.journal.opt-out")
def test_what_an_effect_sent_that_leaves_no_record_is_settled_too(store: Store, vendor: Vendor) -> None:
    held = store.held()

    outcome = sent(held, lambda call: None if vendor.charge(call) else b"")

    assert (outcome.value, store.entries(held.attempt.execution_id)) == (None, [])
    assert [settled for _, settled, _ in ledger(store, held.attempt.execution_id)] == [True]


@pytest.mark.clause("run.journal.ledger-settles-first", "run.retry.resume-at")
def test_a_try_that_was_begun_ahead_and_has_to_wait_is_settled(store: Store, clock: SettableClock) -> None:
    held = store.held()
    held.steps.note(key(held), attempts=1, due=clock.now() + LONGEST_SLEEP_MS + 1)

    with pytest.raises(Waiting):
        sent(held, died)

    assert ledger(store, held.attempt.execution_id) == [("one", True, [])]
    assert held.apart(lambda: "on") == "on", "the source is still closed on the thread that reads"


@pytest.mark.clause("run.journal.ledger-settles-first")
def test_a_woken_try_whose_instant_is_known_begins_nothing_ahead(store: Store, clock: SettableClock) -> None:
    held = store.held()
    held.steps.note(key(held), attempts=1, due=clock.now() + LONGEST_SLEEP_MS + 1)

    with pytest.raises(Waiting):
        held.steps.run(key(held), died, schedule=Schedule(), sends=True, likely_recorded=True)

    assert ledger(store, held.attempt.execution_id) == []


@pytest.mark.clause("run.journal.ledger-settles-first")
def test_a_claim_that_fails_leaves_no_try_for_others_to_send_under(
    store: Store, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim's batch was never sent: what asks under the same key later writes an intent of its own."""
    held = store.held()
    journal = type(held.steps.journal)

    def refused(*_: Any, **__: Any) -> Any:
        raise StorageBindingUnavailable(place="the binding", reason="no route", applied="no")

    with monkeypatch.context() as broken:
        broken.setattr(journal, "claim", refused)
        with pytest.raises(StorageBindingUnavailable):
            sent(held, died)
    held.steps.run(key(held), lambda call: b"%d" % vendor.charge(call), schedule=Schedule())

    assert [(settled, len(requests)) for _, settled, requests in ledger(store, held.attempt.execution_id)] == [
        (True, 1)
    ]


@pytest.mark.clause("run.journal.ledger-settles-first")
def test_waiting_for_a_sibling_writes_one_intent_and_no_more(store: Store, vendor: Vendor) -> None:
    held = store.held()
    begun, go_on = threading.Event(), threading.Event()

    def slow(_: Call) -> bytes:
        begun.set()
        assert go_on.wait(30)
        return b"first"

    first = threading.Thread(target=lambda: held.steps.run(key(held), slow, schedule=Schedule()))
    first.start()
    assert begun.wait(30)
    threading.Timer(0.3, go_on.set).start()

    outcome = sent(held, died)

    first.join()
    assert (outcome.value, outcome.replayed) == (b"first", True)
    assert ledger(store, held.attempt.execution_id) == [("one", True, [])]


@pytest.mark.clause("run.journal.ledger-settles-first")
def test_each_try_of_what_is_known_to_send_has_an_intent_of_its_own(store: Store, vendor: Vendor) -> None:
    held = store.held()
    answers = iter([Transient("no"), None])

    def charge(call: Call) -> bytes:
        vendor.charge(call)
        if failure := next(answers):
            raise failure
        return b"charged"

    sent(held, charge)

    intents = ledger(store, held.attempt.execution_id)
    assert [(step, settled, len(requests)) for step, settled, requests in intents] == [("one", True, 1)] * 2


@pytest.mark.clause("run.journal.idempotency-key")
def test_every_request_of_a_step_carries_its_key_on_every_re_entry(
    store: Store, vendor: Vendor, clock: SettableClock
) -> None:
    keys: list[str] = []

    def charge_twice_and_die(call: Call) -> None:
        keys.append(call.idempotency_key)
        vendor.charge(call)
        vendor.charge(call)
        died(call)

    with pytest.raises(Died):
        store.elsewhere().step("charge", charge_twice_and_die)
    clock.advance(LEASE)
    store.open().step("charge", vendor.charge)

    assert [asked["idempotency-key"] for asked in vendor.asked] == keys * 3


@pytest.mark.clause("run.journal.idempotency-key")
def test_a_destination_names_the_header_its_key_goes_in(store: Store, vendor: Vendor) -> None:
    destinations = {"vendor": Destination("vendor", vendor.url, idempotency_header="X-Request-Key")}
    execution = store.open(engine=store.engine(destinations=destinations))

    execution.step("charge", vendor.charge, destination="vendor")

    assert len(vendor.asked[0]["x-request-key"]) == 32
    assert "idempotency-key" not in vendor.asked[0]


@pytest.mark.clause("run.retry.no-double-spend")
def test_a_resumed_attempt_sends_nothing_an_earlier_one_recorded(
    store: Store, vendor: Vendor, clock: SettableClock
) -> None:
    crashed = store.elsewhere()
    for number in range(3):
        crashed.step("charge", vendor.charge, input=number)
    clock.advance(LEASE)

    resumed = store.open()
    for number in range(4):
        resumed.step("charge", vendor.charge, input=number)

    assert len(vendor.asked) == 4
