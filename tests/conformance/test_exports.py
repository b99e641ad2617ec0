"""Publications under every profile: decided once, sent once, and guarded in a scope of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import ExecutionLive, ExecutionPinMismatch, ExecutionTransferBlocked
from engine.shapes import RunStatus, Schedule
from tests.exports.publishing import HOUR, Publishing
from tests.exports.receiver import Receiver, receiving
from tests.stores import LEASE, MIB, Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.exports.receiver import Request


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def publishing(store: Store, receiver: Receiver) -> Publishing:
    return Publishing(store, receiver)


def test_what_is_committed_since_the_last_export_is_published_in_the_order_of_its_commits(
    publishing: Publishing, receiver: Receiver
) -> None:
    publishing.land(3, 1)
    publishing.land(2)
    first = publishing.run()
    publishing.land(5)
    publishing.land(4)

    second = publishing.run()

    assert receiver.ids == [3, 1, 2, 5, 4]
    assert receiver.batches == [1, 2, 1]
    assert [row["v"] for row in receiver.rows] == ["v3", "v1", "v2", "v5", "v4"]
    assert (first.run.rows, first.run.batches, second.run.rows, second.run.batches) == (3, 2, 2, 1)
    assert (publishing.owner, publishing.outbox, publishing.guards) == (None, [], [])


def test_an_export_without_anything_new_sends_nothing(publishing: Publishing, receiver: Receiver) -> None:
    assert publishing.run().run.status is RunStatus.SUCCESS
    publishing.land(1)
    publishing.run()

    again = publishing.run()

    assert (again.run.status, again.run.rows, len(receiver.requests)) == (RunStatus.SUCCESS, 0, 1)


def test_a_statement_publishes_its_whole_answer_every_time(publishing: Publishing, receiver: Receiver) -> None:
    publishing.land(1, 2)
    statement = "SELECT SUM(id) AS id, 'total' AS v FROM t"
    publishing.run(table=None, statement=statement)
    publishing.land(4)

    publishing.run(table=None, statement=statement)

    assert receiver.ids == [3, 7]
    assert len(set(receiver.keys)) == 2


@pytest.mark.clause("run.callback-guard.identity")
def test_a_request_carries_its_batch_its_export_and_a_key_of_its_own(
    publishing: Publishing, receiver: Receiver
) -> None:
    publishing.land(1, 2, 3)

    publishing.run()

    first, second = receiver.requests
    assert first.body == {"export": "out", "batch": 1, "rows": [{"id": 1, "v": "v1"}, {"id": 2, "v": "v2"}]}
    assert first.headers["content-type"] == "application/json"
    assert first.path == "/in"
    assert first.key != second.key


def test_a_failed_export_sends_what_is_left_and_nothing_twice(publishing: Publishing, receiver: Receiver) -> None:
    publishing.land(1, 2, 3, 4, 5, 6)
    receiver.manners = [200, 422]
    failed = publishing.run()
    left = publishing.outbox

    publishing.land(7)  # committed after the decision: the next export's
    resumed = publishing.run()

    assert (failed.run.status, failed.run.batches, failed.exit_code) == (RunStatus.FAILED, 1, 1)
    assert left == [(1, True), (2, False), (3, False)]
    assert receiver.batches == [1, 2, 2, 3]
    assert receiver.keys[1] == receiver.keys[2]
    assert resumed.run.execution_id == failed.run.execution_id
    assert (resumed.run.status, resumed.run.batches, resumed.run.replayed) == (RunStatus.SUCCESS, 3, 1)
    assert receiver.ids == [1, 2, 3, 4, 5, 6]
    publishing.run()
    assert receiver.ids == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.clause("run.callback-guard.replay")
def test_an_answer_that_is_lost_is_asked_for_again_under_the_same_key(
    publishing: Publishing, receiver: Receiver
) -> None:
    publishing.land(1, 2)
    receiver.manners = ["lost", 503]

    ended = publishing.run(schedule=Schedule(attempts=3, jitter_ms=0))

    assert ended.run.status is RunStatus.SUCCESS
    assert len(receiver.requests) == 3
    assert len(set(receiver.keys)) == 1
    assert receiver.ids == [1, 2]


@pytest.mark.clause("run.callback-guard.class", "run.callback-guard.blocked")
def test_without_a_window_a_lost_answer_leaves_a_guard_that_wants_a_receipt(
    publishing: Publishing, receiver: Receiver
) -> None:
    publishing.window_ms = None
    publishing.land(1, 2, 3)
    receiver.manners = ["lost"]

    ended = publishing.run()

    [standing] = publishing.guards
    assert (ended.exit_code, type(ended.failure)) == (75, ExecutionTransferBlocked)
    assert (str(standing.guard.kind), str(standing.evidence_class)) == ("publication", "receipt-required")
    assert standing.guard.scopes == ("export:out",)
    assert standing.guard.idempotency_key == receiver.keys[0]
    with pytest.raises(ExecutionTransferBlocked) as blocked:
        publishing.run()
    assert (blocked.value.token, blocked.value.evidence_class) == (standing.guard.token, "receipt-required")
    assert "reconcile-guard" in str(blocked.value)
    assert len(receiver.requests) == 1


@pytest.mark.clause("run.callback-guard.class", "run.callback-guard.window")
def test_a_publications_guard_is_replay_safe_within_its_window_and_wants_a_receipt_after_it(
    publishing: Publishing, receiver: Receiver
) -> None:
    publishing.land(1)
    receiver.on_request = lambda _: publishing.store.clock.advance(HOUR)  # the answer comes when the window is over
    receiver.manners = ["lost"]

    publishing.run()

    [standing] = publishing.guards
    assert str(standing.evidence_class) == "receipt-required"
    assert str(standing.guard.evidence_class(standing.guard.admitted_at + HOUR - 1)) == "replay-safe"


@pytest.mark.clause("run.callback-guard.evidence", "run.callback-guard.manual")
def test_a_receipt_settles_a_publication_and_the_next_run_goes_on_behind_it(
    publishing: Publishing, receiver: Receiver
) -> None:
    publishing.window_ms = None
    publishing.land(1, 2, 3)
    receiver.manners = ["lost"]
    publishing.run()
    [standing] = publishing.guards

    evidence = f"receipt:{standing.guard.idempotency_key}:rec-1"
    publishing.desk.reconcile(standing.guard.token, evidence=evidence, operator="ann")
    resumed = publishing.run()

    assert (resumed.run.status, resumed.run.batches) == (RunStatus.SUCCESS, 2)
    assert receiver.batches == [1, 2]
    assert receiver.ids == [1, 2, 3]
    assert publishing.outbox == []


@pytest.mark.clause("run.callback-guard.evidence")
def test_a_destination_that_never_saw_the_key_is_sent_the_batch_again(
    publishing: Publishing, receiver: Receiver
) -> None:
    publishing.window_ms = None
    publishing.land(1, 2)
    receiver.manners = ["vanished"]
    publishing.run()
    [standing] = publishing.guards

    evidence = f"receipt:{standing.guard.idempotency_key}:absent"
    publishing.desk.reconcile(standing.guard.token, evidence=evidence, operator="ann")
    resumed = publishing.run()

    assert resumed.run.status is RunStatus.SUCCESS
    assert receiver.ids == [1, 2]
    assert receiver.keys[0] == receiver.keys[1]


@pytest.mark.clause("run.callback-guard.scope")
def test_a_guard_of_one_export_keeps_no_other_export_and_no_job_from_anything(
    publishing: Publishing, receiver: Receiver
) -> None:
    publishing.window_ms = None
    publishing.land(1)
    receiver.manners = ["lost"]
    publishing.run()

    other = publishing.run(name="other")
    with publishing.store.open("job") as job:
        assert job.step("one", lambda _: 1) == 1

    assert other.run.status is RunStatus.SUCCESS
    assert [request.body["export"] for request in receiver.requests] == ["out", "other"]
    assert [standing.guard.scope for standing in publishing.guards] == ["export:out"]


@pytest.mark.clause("run.callback-guard.scope")
def test_a_guard_of_a_job_keeps_no_export_from_publishing_even_to_the_same_destination(
    publishing: Publishing, receiver: Receiver
) -> None:
    publishing.window_ms = None
    publishing.land(1)
    receiver.manners = ["lost"]
    engine = publishing.engine()
    with pytest.raises(ExecutionTransferBlocked):
        publishing.store.open("job", engine=engine).step(
            "charge", lambda call: call.http.post(publishing.receiver.url, json={"batch": 0}).text, destination="shop"
        )

    ended = publishing.run(engine)

    assert ended.run.status is RunStatus.SUCCESS
    assert receiver.batches == [0, 1]
    assert [standing.guard.scope for standing in publishing.guards] == ["host:job"]


@pytest.mark.clause("run.own.live-owner")
def test_an_export_at_work_elsewhere_is_not_run_beside(publishing: Publishing, receiver: Receiver) -> None:
    publishing.land(1)
    beside: list[BaseException] = []

    def other(_: Request) -> None:
        receiver.on_request = lambda _: None
        try:
            publishing.run()
        except ExecutionLive as live:
            beside.append(live)

    receiver.on_request = other

    assert publishing.run().run.status is RunStatus.SUCCESS
    assert len(beside) == 1
    assert receiver.ids == [1]


@pytest.mark.clause("run.journal.plan-pin")
def test_an_export_declared_anew_does_not_go_on_with_what_the_former_one_decided(
    publishing: Publishing, receiver: Receiver
) -> None:
    publishing.land(1, 2, 3)
    receiver.manners = [200, 422]
    publishing.run()

    with pytest.raises(ExecutionPinMismatch):
        publishing.run(table=None, statement="SELECT 1 AS id")

    assert publishing.run(batch=100).run.batches == 2  # how many rows a request has is decided already


def test_a_body_past_the_inline_limit_is_published_whole(publishing: Publishing, receiver: Receiver) -> None:
    publishing.land(1)
    long = f"SELECT 1 AS id, repeat('x', {MIB}) AS v"
    receiver.manners = [422]
    publishing.run(table=None, statement=long)

    ended = publishing.run(table=None, statement=long)

    assert ended.run.status is RunStatus.SUCCESS
    assert [len(row["v"]) for row in receiver.rows] == [MIB]
    assert publishing.outbox == []


@pytest.mark.parametrize("width", [1, 60, 100, 200, 300])
def test_bodies_of_any_length_are_each_sent_whole_and_in_their_order(
    publishing: Publishing, receiver: Receiver, width: int
) -> None:
    statement = f"SELECT i AS id, repeat('x', (i % 3) * {width} * 1024) AS v FROM range(1, 9) AS t(i) ORDER BY i"
    receiver.manners = [200, 200, 422]
    publishing.run(table=None, statement=statement, batch=1)

    ended = publishing.run(table=None, statement=statement, batch=1)

    assert (ended.run.status, ended.run.batches) == (RunStatus.SUCCESS, 8)
    assert receiver.ids == [1, 2, *range(3, 9)]
    assert [len(row["v"]) for row in receiver.rows] == [(i % 3) * width * 1024 for i in receiver.ids]


@pytest.mark.clause("run.retry.waiting-state")
def test_a_destination_that_asks_for_an_hour_is_waited_for_without_a_guard(
    publishing: Publishing, receiver: Receiver
) -> None:
    publishing.land(1, 2, 3)
    receiver.headers = {"Retry-After": "3600"}
    receiver.manners = [200, 429]

    waiting = publishing.run(schedule=Schedule(attempts=3, jitter_ms=0))

    assert (waiting.run.status, waiting.exit_code) == (RunStatus.WAITING, 75)
    assert publishing.guards == []
    publishing.store.clock.advance(HOUR + LEASE)
    ended = publishing.run(schedule=Schedule(attempts=3, jitter_ms=0))
    assert (ended.run.status, ended.run.run_id) == (RunStatus.SUCCESS, waiting.run.run_id)
    assert receiver.ids == [1, 2, 3]
