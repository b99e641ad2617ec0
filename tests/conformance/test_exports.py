"""Publications under every profile: what is decided, in which order it is sent, and that it is sent once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import ExecutionLive, ExecutionPinMismatch
from engine.schedule import Schedule
from engine.shapes import RunStatus
from tests.exports.publishing import HOUR, Publishing
from tests.stores import LEASE, MIB

if TYPE_CHECKING:
    from tests.exports.receiver import Receiver, Request


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
