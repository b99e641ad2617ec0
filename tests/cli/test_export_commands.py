"""Publications from the command line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from engine.cli import session
from engine.clock import SystemClock
from tests.cli.conftest import ORDERS
from tests.exports.receiver import Receiver, receiving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Shell
    from tests.exports.receiver import Request

TOKEN = "s3cr3t-of-the-hub"

EXPORT = """
[[destination]]
name = "hub"
kind = "http"
url = "{url}/in"
headers = {{ Authorization = "Bearer ${{HUB_TOKEN}}" }}
{window}
[[export]]
name = "new-orders"
destination = "hub"
table = "orders"
batch = 1
retry = {{ attempts = 1 }}
"""

WINDOW = 'dedup_window = "24h"\n'


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def orders(shell: Shell, receiver: Receiver) -> Shell:
    """Two landed orders, and an export of them to a destination with a window."""
    return declared(shell, receiver, window=WINDOW)


def declared(shell: Shell, receiver: Receiver, *, window: str = "") -> Shell:
    shell.orders()
    shell.write("contextful.toml", ORDERS + EXPORT.format(url=receiver.url, window=window))
    shell.set("HUB_TOKEN", TOKEN)
    assert shell("pipeline", "run", "orders").code == 0
    return shell


def only(shell: Shell) -> dict[str, Any]:
    [listed] = shell.json("export", "list")["exports"]
    return dict(listed)


def test_an_export_publishes_what_was_landed_and_says_so(orders: Shell, receiver: Receiver) -> None:
    ended = orders("export", "run", "new-orders", "--run-id", "first")

    assert (ended.code, ended.out) == (0, "new-orders: delivered 2 rows in 2 batches (run first) to hub\n")
    assert "2 rows" in ended.err
    assert receiver.ids == [1, 2]
    assert (only(orders)["state"], only(orders)["last_run"]["run_id"]) == ("idle", "first")
    assert only(orders)["position"] == {"table": "orders", "seq": 1, "commit_id": only(orders)["position"]["commit_id"]}


def test_its_document_tells_of_the_run(orders: Shell) -> None:
    told = orders.json("export", "run", "new-orders")

    assert (told["export"], told["destination"], told["status"]) == ("new-orders", "hub", "success")
    assert (told["rows"], told["batches"], told["replayed"], told["error"], told["guard"]) == (2, 2, 0, None, None)
    assert told["ended_at"].endswith("Z")


def test_a_run_id_that_has_succeeded_is_shown_again(orders: Shell, receiver: Receiver) -> None:
    orders("export", "run", "new-orders", "--run-id", "once")

    again = orders.json("export", "run", "new-orders", "--run-id", "once")

    assert (again["run_id"], again["status"], len(receiver.requests)) == ("once", "success", 2)


def test_the_secrets_of_a_destination_are_sent_and_recorded_nowhere(orders: Shell, receiver: Receiver) -> None:
    receiver.answer = lambda _: b'{"id": "' + TOKEN.encode() + b'"}'

    told = orders("export", "run", "new-orders")

    assert {request.headers["authorization"] for request in receiver.requests} == {f"Bearer {TOKEN}"}
    assert TOKEN not in told.out + told.err
    files = [path for path in (orders.folder / ".contextful").rglob("*") if path.is_file()]
    assert [path.name for path in files if TOKEN.encode() in path.read_bytes()] == []


def test_what_a_destination_says_of_a_secret_is_masked(orders: Shell, receiver: Receiver) -> None:
    receiver.manners = [401]
    receiver.refusal = f"the token {TOKEN} has expired".encode()

    ended = orders("export", "run", "new-orders")

    assert (ended.code, "has expired" in ended.err, TOKEN in ended.err) == (1, True, False)
    assert "check the destination's credentials" in ended.err


def test_without_its_secret_nothing_is_held_and_a_pipeline_still_runs(orders: Shell, receiver: Receiver) -> None:
    orders.monkeypatch.delenv("HUB_TOKEN")

    ended = orders("export", "run", "new-orders", "--json")

    assert (ended.code, ended.error["name"], ended.error["path"]) == (
        2, "SecretNotFound", 'destination "hub": headers.Authorization',
    )  # fmt: skip
    assert orders.json("status") == {"pending": []}
    assert orders("pipeline", "run", "orders").code == 0
    assert receiver.requests == []


def test_an_export_nobody_declared_is_named_with_those_there_are(orders: Shell) -> None:
    for command in ("run", "list"):
        ended = orders("export", command, "new-order", "--json")

        assert (ended.code, ended.error["name"]) == (2, "ExportUnknown")
        assert "did you mean new-orders" in ended.error["message"]


def test_a_refused_batch_is_listed_with_the_verb_that_sends_it(orders: Shell, receiver: Receiver) -> None:
    receiver.manners = [200, 422]

    ended = orders("export", "run", "new-orders")

    assert (ended.code, "StepFailed" in ended.err, "answered 422" in ended.err) == (1, True, True)
    assert "next: contextful export run new-orders" in ended.err
    listed = only(orders)
    assert (listed["state"], listed["next"]) == ("pending", "contextful export run new-orders")
    assert listed["pending"] == {"batches": 2, "undelivered": 1, "rows": 1}
    assert "1 of 2 batches" in orders("export", "list").out
    assert orders.json("export", "run", "new-orders")["replayed"] == 1
    assert receiver.ids == [1, 2]


@pytest.mark.clause("run.callback-guard.blocked", "run.callback-guard.class")
def test_a_guard_in_the_way_ends_with_75_and_is_named_everywhere(shell: Shell, receiver: Receiver) -> None:
    declared(shell, receiver)
    receiver.manners = ["lost"]

    first = shell("export", "run", "new-orders", "--json")
    again = shell("export", "run", "new-orders", "--json")

    assert (first.code, again.code) == (75, 75)
    token = first.document["guard"]["token"]
    assert first.document["guard"] == {"token": token, "evidence_class": "receipt-required"}
    assert (again.error["name"], again.error["token"]) == ("ExecutionTransferBlocked", token)
    [pending] = shell.json("status")["pending"]
    assert (pending["scope"], pending["guard"]["token"]) == ("export:new-orders", token)
    assert pending["guard"] == only(shell)["guard"]
    key = receiver.keys[0]
    assert f"reconcile-guard --project shop --token {token} --evidence receipt:{key}:ID" in pending["next"]
    assert only(shell)["next"] == pending["next"]
    assert f"{token} (receipt-required" in shell("status").out
    assert len(receiver.requests) == 1


@pytest.mark.clause("run.callback-guard.blocked")
def test_a_guard_whose_engine_was_killed_says_what_moves_it_on(orders: Shell, receiver: Receiver) -> None:
    killed(orders, receiver)
    [running] = orders.json("status")["pending"]
    session.clock.set(SystemClock(31_000))

    [pending] = orders.json("status")["pending"]

    assert (running["state"], running["guard"]["evidence_class"]) == ("running", "replay-safe")
    assert "contextful export run new-orders --wait 60s follows it" in running["next"]
    assert pending["state"] == "pending"
    assert f"--evidence idempotency:{receiver.keys[0]}" in pending["next"]


@pytest.mark.clause("run.own.live-owner")
def test_an_export_at_work_elsewhere_is_waited_for_or_refused(orders: Shell, receiver: Receiver) -> None:
    ended: list[Any] = []

    def beside(_: Request) -> None:
        receiver.on_request = lambda _: None
        ended.append(orders.script("export", "run", "new-orders", "--json"))

    receiver.on_request = beside

    assert orders.script("export", "run", "new-orders").code == 0
    assert (ended[0].code, ended[0].error["name"]) == (75, "ExecutionLive")
    assert receiver.ids == [1, 2]


@pytest.mark.clause("run.own.rewind")
def test_a_rewound_export_starts_over_from_its_position(orders: Shell, receiver: Receiver) -> None:
    orders("export", "run", "new-orders")
    orders.orders({"id": 3, "at": "2026-01-03T00:00:00Z"}, {"id": 4, "at": "2026-01-04T00:00:00Z"})
    orders.write("contextful.toml", ORDERS + EXPORT.format(url=receiver.url, window=WINDOW))
    orders("pipeline", "run", "orders")
    receiver.manners = [422]
    failed = orders("export", "run", "new-orders", "--json").document

    rewound = orders("run", "rewind", failed["execution_id"], "--reason", "again", "--force")

    assert rewound.code == 0
    assert "export:new-orders" in rewound.out
    assert (only(orders)["state"], only(orders)["pending"]["batches"]) == ("idle", 0)
    assert orders.json("export", "run", "new-orders")["rows"] == 2
    assert receiver.ids == [1, 2, 3, 4]


def test_a_manifest_without_exports_lists_none(shell: Shell) -> None:
    shell.orders()

    assert shell("export", "list").out == "the manifest declares no export\n"
    assert shell.json("export", "list") == {"exports": []}


def killed(shell: Shell, receiver: Receiver) -> None:
    """An export killed while its first request is out."""
    process = shell.start("export", "run", "new-orders")
    receiver.on_request = lambda _: os.kill(process.pid, 9)
    process.wait(30)
    receiver.on_request = lambda _: None
