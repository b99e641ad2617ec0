"""What an operator sees of guards through the real Worker, and what releases one there."""

from __future__ import annotations

import base64
import threading
from typing import TYPE_CHECKING, Any

import pytest

from engine.guards.desk import Desk
from engine.shapes import INLINE_LIMIT
from tests.edge.asked_guards import inline, names, receipt, resumed
from tests.guarded import HOUR
from tests.stores import PROJECT, Effect

if TYPE_CHECKING:
    from tests.edge.operators import Door


@pytest.mark.clause("run.callback-guard.inspect", "run.callback-guard.class")
@pytest.mark.parametrize(("window", "evidence_class"), [(HOUR, "replay-safe"), (60_000, "unknown"), (None, "unknown")])
def test_the_worker_tells_a_guard_as_the_engine_would(door: Door, window: int | None, evidence_class: str):
    dead = door.dead(window=window)
    [standing] = Desk(door.stores[-1].here.profile.database, door.stores[-1].here.profile.admission).guards()

    answer = door.ask(token=door.token())

    [told] = answer.json()["guards"]
    # Whatever depends on the instant is told by the Worker's clock, which stands ahead of this store's.
    assert told == standing.projection() | {"evidence_class": evidence_class}
    assert {name for name, value in told.items() if value in (None, [])} <= {
        "leases", "window", "covered_until", "holder_exited_at"
    }  # fmt: skip
    assert door.ask(f"guards?token={dead.guard.token}", token=door.token()).json()["guards"] == [told]


def test_a_guard_that_does_not_stand_is_unknown(door: Door):
    asked = door.ask("guards?token=g-none", token=door.token())
    released = door.reconcile("g-none", evidence="receipt:k:1")

    for answer in (asked, released):
        assert (answer.status_code, names(answer)) == (404, "ExecutionGuardUnknown")


@pytest.mark.clause("run.callback-guard.manual")
def test_evidence_releases_a_guard_and_goes_on_record_with_whose_credential_it_came(door: Door):
    guard = door.dead().guard

    by_token = door.reconcile(guard.token, evidence=receipt(guard))

    assert by_token.status_code == 200, by_token.text
    assert by_token.json()["operator"] == "anna (token of laptop-1)"
    assert by_token.json()["proof"] == "receipt"
    assert door.tokens() == []
    assert door.audits() == [[guard.token, receipt(guard), "anna (token of laptop-1)"]]
    again = door.reconcile(guard.token, evidence=receipt(guard))
    assert again.status_code == 404
    assert "anna (token of laptop-1) reconciled it at" in again.json()["error"]["message"]


@pytest.mark.clause("run.callback-guard.manual")
def test_whom_access_vouches_for_is_on_record_too(door: Door):
    guard = door.dead().guard
    path = f"/v1/projects/{PROJECT}/guards/{guard.token}/reconcile"
    headers = {"cf-access-jwt-assertion": door.team.assertion()}

    answer = door.http.post(path, headers=headers, json={"operator": "anna", "evidence": receipt(guard, "absent")})

    assert answer.status_code == 200
    assert door.audits() == [[guard.token, receipt(guard, "absent"), "anna (access of anna@example.com)"]]


@pytest.mark.clause("run.callback-guard.manual")
def test_a_dry_run_says_what_would_follow_and_changes_nothing(door: Door):
    guard = door.dead().guard

    answer = door.reconcile(guard.token, evidence=receipt(guard), dry_run=True)

    assert (answer.status_code, answer.json()["dry_run"]) == (200, True)
    assert "not sent again" in answer.json()["follows"]
    assert (door.tokens(), door.audits()) == ([guard.token], [])


@pytest.mark.clause("run.callback-guard.manual")
def test_of_two_operators_at_once_one_releases(door: Door):
    guard = door.dead().guard
    answers: list[int] = []

    def release(name: str) -> None:
        answers.append(door.reconcile(guard.token, evidence=receipt(guard, name)).status_code)

    both = [threading.Thread(target=release, args=(name,)) for name in ("ch_1", "ch_2")]
    for each in both:
        each.start()
    for each in both:
        each.join()

    assert sorted(answers) == [200, 404]
    assert len(door.audits()) == 1


@pytest.mark.clause("run.callback-guard.live-holder")
def test_a_guard_whose_engine_may_be_sending_is_held(door: Door):
    guard = door.dead(behind=0).guard

    for evidence in (receipt(guard), receipt(guard, "absent"), f"idempotency:{guard.idempotency_key}"):
        answer = door.reconcile(guard.token, evidence=evidence)
        assert (answer.status_code, names(answer)) == (409, "ExecutionGuardHeld")
    assert answer.json()["error"]["lease_until"].endswith("Z")
    assert (door.tokens(), door.audits()) == ([guard.token], [])


@pytest.mark.clause("run.callback-guard.evidence")
def test_evidence_that_is_not_tied_to_the_guard_releases_nothing(door: Door):
    guard = door.dead(window=None).guard
    key = guard.idempotency_key

    for evidence in ("hearsay", f"idempotency:{key}", f"receipt:{key}", "receipt:other:ch_1", f"Receipt:{key}:ch_1"):
        answer = door.reconcile(guard.token, evidence=evidence)
        assert (answer.status_code, names(answer)) == (422, "ExecutionGuardEvidenceMismatch"), evidence

    assert (door.tokens(), door.audits()) == ([guard.token], [])


@pytest.mark.clause("run.callback-guard.evidence")
def test_the_key_itself_releases_while_the_window_covers(door: Door):
    guard = door.dead(window=HOUR).guard

    answer = door.reconcile(guard.token, evidence=f"idempotency:{guard.idempotency_key}")

    assert (answer.status_code, answer.json()["proof"]) == (200, "replay")
    assert door.tokens() == []


@pytest.mark.clause("run.callback-guard.evidence")
def test_a_window_that_passes_while_the_operator_thinks_is_met_in_the_batch(door: Door):
    # The guard was read when its window covered; the statement judges by the instant at which it runs.
    guard = door.dead(window=60_000).guard

    answer = door.reconcile(guard.token, evidence=f"idempotency:{guard.idempotency_key}")

    assert (answer.status_code, names(answer)) == (422, "ExecutionGuardEvidenceMismatch")
    assert door.tokens() == [guard.token]


def test_a_receipts_value_is_what_the_next_attempt_replays(door: Door):
    dead = door.dead(gone=True)
    effect = Effect("sent again")

    answer = door.reconcile(dead.guard.token, evidence=receipt(dead.guard), value=inline({"id": "ch_1"}))

    assert answer.json()["valued"]
    assert resumed(door, effect) == {"id": "ch_1"}
    assert effect.calls == 0


def test_a_value_may_come_later_and_comes_once(door: Door):
    dead = door.dead(gone=True)
    settled = receipt(dead.guard)
    door.reconcile(dead.guard.token, evidence=settled)

    other = door.reconcile(dead.guard.token, evidence=receipt(dead.guard, "ch_2"), value=inline(1))
    first = door.reconcile(dead.guard.token, evidence=settled, value=inline({"id": "ch_1"}))
    second = door.reconcile(dead.guard.token, evidence=settled, value=inline({"id": "ch_2"}))

    assert (other.status_code, first.status_code, second.status_code) == (404, 200, 409)
    assert names(second) == "GuardStepRecorded"
    assert len(door.audits()) == 2
    effect = Effect("sent again")
    assert resumed(door, effect) == {"id": "ch_1"}
    assert effect.calls == 0


def test_what_the_destination_never_saw_is_sent_as_if_for_the_first_time(door: Door):
    dead = door.dead(window=None, gone=True)
    effect = Effect("sent")

    assert door.reconcile(dead.guard.token, evidence=receipt(dead.guard, "absent")).status_code == 200

    assert resumed(door, effect, window=None) == "sent"
    assert effect.keys == dead.keys


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"evidence": 7}, 400),
        ({"evidence": ""}, 400),
        ({"operator": "  "}, 400),
        ({"operator": "anna\nroot"}, 400),
        ({"dry_run": "yes"}, 400),
        ({"force": True}, 400),
        ({"value": "text"}, 400),
        ({"value": {"b64": "no base64!"}}, 400),
        ({"value": {"b64": base64.b64encode(b"x" * (INLINE_LIMIT + 65)).decode()}}, 400),
        ({"evidence": "receipt:k:absent", "value": {"b64": ""}}, 404),
    ],
    ids=str,
)
def test_a_request_that_cannot_be_meant_is_refused_whole(door: Door, body: dict[str, Any], status: int):
    answer = door.reconcile("g-none", **({"evidence": "receipt:k:1"} | body))

    assert answer.status_code == status
    assert door.audits() == []


def test_a_body_that_is_no_request_is_refused(door: Door):
    headers = {"authorization": f"Bearer {door.token()}"}
    path = f"/v1/projects/{PROJECT}/guards/g-1/reconcile"

    for content in (b"", b"[]", b"{", b"\xff", b"[" * 50_000, b"x" * (2 * INLINE_LIMIT + 1)):
        answer = door.http.post(path, headers=headers, content=content)
        assert (answer.status_code, names(answer)) == (400, "OperatorRequestUnusable"), content[:9]


def test_the_largest_value_goes_through(door: Door):
    dead = door.dead(gone=True)
    value = "x" * (INLINE_LIMIT - 2)

    answer = door.reconcile(dead.guard.token, evidence=receipt(dead.guard), value=inline(value))

    assert answer.status_code == 200, answer.text[:300]
    assert resumed(door, Effect()) == value


def test_only_the_operators_routes_and_methods_are_served(door: Door):
    headers = {"authorization": f"Bearer {door.token()}"}
    base = f"/v1/projects/{PROJECT}"

    for method, path in [
        ("POST", f"{base}/guards"), ("DELETE", f"{base}/guards/g-1"), ("GET", f"{base}/guards/g-1"),
        ("GET", f"{base}/guards/g-1/reconcile"), ("GET", base), ("GET", f"{base}/guards/"), ("GET", f"{base}/audits"),
    ]:  # fmt: skip
        assert door.http.request(method, path, headers=headers).status_code == 404, (method, path)


def test_a_database_of_another_project_is_not_this_workers(door: Door):
    door.binding.batch(("UPDATE meta SET value = 'other' WHERE name = 'project'",))

    answer = door.ask(token=door.token())

    door.binding.batch((f"UPDATE meta SET value = '{PROJECT}' WHERE name = 'project'",))
    assert (answer.status_code, names(answer)) == (409, "OperatorProjectElsewhere")
