"""Publications under a guard: what stands when no answer comes, what releases it, and what it keeps from moving."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import ExecutionTransferBlocked
from engine.shapes import RunStatus
from tests.exports.publishing import HOUR, Publishing

if TYPE_CHECKING:
    from tests.exports.receiver import Receiver


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
