"""A request of an export: what it carries, what its answer means, and what is kept of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from engine.clock import SystemClock
from engine.errors import ExecutionLive, Permanent, SecretNotFound, StepFailed
from engine.execution import values
from engine.exports.run import ExportRun, scope_of
from engine.exports.sending import LONGEST_RECEIPT, SHARE, Sending
from engine.pins import Pins
from engine.pipeline.declaration import Destination
from engine.schedule import Schedule
from engine.secrets import SecretGuard
from engine.shapes import RunStatus
from tests.clocks import SettableClock
from tests.exports.publishing import HOUR, Publishing, export
from tests.stores import Store

if TYPE_CHECKING:
    from pathlib import Path

    from tests.exports.receiver import Receiver, Request

SEAL = "5a" * 32


def recorded(publishing: Publishing) -> list[dict[str, Any]]:
    """What the journal keeps of the deliveries of an export that was refused its last batch."""
    [owner] = publishing.store.here.owners.all()
    entries = publishing.store.entries(owner.execution_id)
    kept = [entry for entry in entries if entry.recorded and entry.key.step.startswith("batch:")]
    return [values.decode(publishing.store.here.profile.journal.value(entry)) for entry in kept]


@pytest.mark.parametrize(
    ("answer", "headers", "receipt"),
    [
        (b'{"id": "rec-1"}', {"X-Receipt-Id": "other"}, "rec-1"),
        (b'{"id": 7}', {}, "7"),
        (b'{"id": null}', {"X-Receipt-Id": "rec-2"}, "rec-2"),
        (b"thanks", {"X-Request-Id": "req-3"}, "req-3"),
        (b"", {}, None),
        (b'{"id": "' + b"x" * 500 + b'"}', {}, "x" * LONGEST_RECEIPT),
    ],
)
def test_what_is_kept_of_a_delivery_is_small(
    publishing: Publishing, receiver: Receiver, answer: bytes, headers: dict[str, str], receipt: str | None
) -> None:
    publishing.land(1, 2, 3)
    receiver.answer, receiver.headers = lambda _: answer, headers
    receiver.manners = [201, 422]

    publishing.run()

    [kept] = recorded(publishing)
    assert (kept["status"], kept["receipt"], sorted(kept)) == (201, receipt, ["receipt", "sha256", "status"])


def test_an_answer_of_any_length_is_read_no_further_than_its_receipt(
    publishing: Publishing, receiver: Receiver
) -> None:
    publishing.land(1)
    receiver.answer = lambda _: b"x" * (1 << 22)

    assert publishing.run().run.status is RunStatus.SUCCESS


@pytest.mark.parametrize("status", [302, 404, 409])
def test_an_answer_that_is_no_success_delivers_nothing(publishing: Publishing, receiver: Receiver, status: int) -> None:
    publishing.land(1)
    receiver.manners = [status]
    receiver.headers = {"Location": f"{receiver.url}/elsewhere"}

    ended = publishing.run()

    assert isinstance(ended.failure, StepFailed)
    assert f"the destination shop answered {status}" in str(ended.failure)
    assert [request.path for request in receiver.requests] == ["/in"]


@pytest.mark.clause("run.callback-guard.class")
def test_a_status_that_the_destination_declares_a_refusal_leaves_no_guard(
    publishing: Publishing, receiver: Receiver
) -> None:
    publishing.window_ms, publishing.refusals = None, (503,)
    publishing.land(1)
    receiver.manners = [503]

    refused = publishing.run()

    assert (refused.exit_code, publishing.guards) == (1, [])
    assert publishing.run().run.status is RunStatus.SUCCESS
    assert receiver.ids == [1]


def test_a_secret_that_is_not_set_is_named_with_its_place() -> None:
    hub = Destination("hub", "https://hub.example.com", headers={"Authorization": "Bearer ${TOKEN}"})

    with pytest.raises(SecretNotFound) as refusal:
        Sending.to(hub, {}, guard=SecretGuard({}), now=SystemClock().now)

    assert (refusal.value.name, refusal.value.path) == ("TOKEN", 'destination "hub": headers.Authorization')


@pytest.mark.parametrize(("window_ms", "phase_ms"), [(None, 30_000), (HOUR, 30_000), (10_000, 8_000 / SHARE)])
def test_a_request_takes_no_longer_than_its_window_lets_it(window_ms: int | None, phase_ms: float) -> None:
    hub = Destination("hub", "https://hub.example.com", dedup_window_ms=window_ms)

    sending = Sending.to(hub, {}, guard=SecretGuard({}), now=SystemClock().now)

    assert sending._phase_s * 1000 == phase_ms


def test_a_short_window_is_published_under(publishing: Publishing, receiver: Receiver) -> None:
    publishing.window_ms = 3_000
    publishing.land(1)

    assert publishing.run().run.status is RunStatus.SUCCESS


@pytest.mark.clause("run.cancel.land-path-uncut")
def test_an_export_that_is_stopped_records_the_request_that_is_out_and_sends_no_other(
    publishing: Publishing, receiver: Receiver
) -> None:
    publishing.land(1, 2, 3, 4)
    engine = publishing.engine()
    stopped = threading.Event()

    def stop(_: Request) -> None:
        receiver.on_request = lambda _: None
        engine.stop("enough")
        stopped.set()

    receiver.on_request = stop

    ended = publishing.run(engine)

    assert stopped.is_set()
    assert (ended.run.status, ended.exit_code, len(receiver.requests)) == (RunStatus.CANCELED, 130, 1)
    assert publishing.run().run.replayed == 1
    assert receiver.ids == [1, 2, 3, 4]


@pytest.mark.clause("run.journal.storage-unsupported")
def test_beside_a_sealed_journal_no_body_lies_open(tmp_path: Path, receiver: Receiver) -> None:
    sealed = Store("sqlite", tmp_path / "sealed", SettableClock(), lambda: {"CONTEXTFUL_SEAL_KEY": SEAL}).initialized()
    publishing = Publishing(sealed, receiver)
    corpus = publishing.corpus
    corpus.land("r-1", [{"id": 1, "v": "plainly-readable"}])
    receiver.manners = [422]
    publishing.run()
    kept = [path for path in sealed.root.rglob("*") if path.is_file() and not {"staged", "opened"} & set(path.parts)]
    readable = [path.name for path in kept if b"plainly-readable" in path.read_bytes()]

    ended = publishing.run()

    assert (readable, ended.run.status) == ([], RunStatus.SUCCESS)
    assert receiver.rows == [{"id": 1, "v": "plainly-readable"}]
    sealed.close()


@pytest.mark.clause("run.own.pin-release")
def test_an_export_that_cannot_be_decided_leaves_nothing_pending(publishing: Publishing) -> None:
    ended = publishing.run(table=None, statement="SELECT * FROM nowhere")

    assert ended.run.status is RunStatus.FAILED
    assert (publishing.owner, publishing.outbox) == (None, [])


def test_a_watcher_hears_what_is_decided_and_each_delivery(publishing: Publishing, receiver: Receiver) -> None:
    publishing.land(1, 2, 3)
    receiver.manners = [200, 422]
    publishing.run()

    publishing.run()

    heard = publishing.heard
    assert [(each.batches, each.rows) for each in heard.decisions] == [(2, 3), (2, 3)]
    assert heard.delivered_batches == [(1, False), (1, True), (2, False)]
    assert [run.status for run in heard.runs] == [
        RunStatus.RUNNING, RunStatus.FAILED, RunStatus.RUNNING, RunStatus.SUCCESS,
    ]  # fmt: skip


def test_an_export_takes_a_run_id_once(publishing: Publishing, receiver: Receiver) -> None:
    publishing.land(1)
    receiver.manners = [422]
    failed = publishing.run(run_id="night")

    replay = publishing.run(run_id="night")
    again = publishing.run(run_id="night")

    assert (failed.run.run_id, replay.run.run_id, again.run.run_id) == ("night", "night.replay-1", "night.replay-1")
    assert len(receiver.requests) == 2


def test_a_run_whose_twin_was_waited_for_is_shown_and_not_repeated(publishing: Publishing) -> None:
    """The same request twice at once: the second sits out the first and shows what it came to."""
    publishing.land(1)
    other = publishing.engine()
    plan, scope = export().content_hash, scope_of("out")
    held = other.hold(scope, Pins(plan), run=other.new_run("night", plan_ref=plan, host_scope=scope))

    def ends(_: ExecutionLive) -> bool:
        held.retire(held.ended(RunStatus.SUCCESS))
        return True

    second = ExportRun(publishing.engine(), export(), secrets={}, watcher=publishing.heard)

    assert second.run("night", await_live=ends).run.run_id == "night"
    assert publishing.store.statuses() == [RunStatus.SUCCESS]


@pytest.mark.parametrize("patient", [True, False])
def test_a_run_that_waited_and_is_at_work_elsewhere_is_waited_for_or_refused(
    publishing: Publishing, receiver: Receiver, patient: bool
) -> None:
    publishing.land(1, 2, 3)
    receiver.headers = {"Retry-After": "3600"}
    receiver.manners = [200, 429]
    retried, scope = export(schedule=Schedule(attempts=3, jitter_ms=0)), scope_of("out")
    other, held = publishing.engine(), []

    def taken(_: str, due_at: int) -> bool:
        publishing.store.clock.advance(due_at - publishing.store.clock.now())
        run = other.new_run("night", plan_ref=retried.content_hash, host_scope=scope)
        held.append(other.hold(scope, Pins(retried.content_hash), run=run))
        return True

    def ends(_: ExecutionLive) -> bool:
        if patient:
            held[0].release(held[0].ended(RunStatus.FAILED, failure=Permanent("gone")))
        return patient

    waits = ExportRun(publishing.engine(), retried, secrets={}, watcher=publishing.heard)
    if patient:
        ended = waits.run("night", await_due=taken, await_live=ends)
        assert (ended.run.run_id, ended.run.status, ended.exit_code) == ("night", RunStatus.FAILED, 1)
    else:
        with pytest.raises(ExecutionLive) as refused:
            waits.run("night", await_due=taken, await_live=ends)
        assert refused.value.exit_code == 75
    assert len(receiver.requests) == 2


@pytest.mark.parametrize(("answer", "status", "code"), [(200, RunStatus.SUCCESS, 0), (400, RunStatus.FAILED, 1)])
def test_a_run_that_waited_is_told_as_it_ended_elsewhere(
    publishing: Publishing, receiver: Receiver, answer: int, status: RunStatus, code: int
) -> None:
    """It sits its instant out and finds that another process, told of the same instant, was there first."""
    publishing.land(1, 2, 3)
    receiver.headers = {"Retry-After": "3600"}
    receiver.manners = [200, 429, answer]
    patient = export(schedule=Schedule(attempts=3, jitter_ms=0))

    def ends(_: str, due_at: int) -> bool:
        publishing.store.clock.advance(due_at - publishing.store.clock.now())
        publishing.run(schedule=patient.schedule)
        return True

    waits = ExportRun(publishing.engine(), patient, secrets={}, watcher=publishing.heard)
    ended = waits.run("night", await_due=ends)

    assert (ended.run.run_id, ended.run.status, ended.exit_code) == ("night", status, code)
    assert len(receiver.requests) == 3
