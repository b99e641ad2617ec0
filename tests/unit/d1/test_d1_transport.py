"""What is sent again and what never is, against a peer that misbehaves on request."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from d1.binding import Binding
from d1.database import D1Database
from engine.binding import ATTEMPTS, Exchange, Patience
from engine.errors import (
    Refused,
    StorageBindingUnavailable,
    StorageLimitExceeded,
    StorageProtocolMismatch,
    StorageUnusable,
)
from engine.ports import Call, Statement
from engine.sql import call, schema
from tests.unit.d1.peer import Peer

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.clause("run.journal.d1-transport")

PATIENCE = Patience(read_s=10, write_s=10, pause_s=0.01)
HASTY = Patience(read_s=0.5, write_s=0.5, pause_s=0.01)
WRITE = call("forget_cursor", table_name="t")
READ = call("read_meta")
INITIALIZE = (*schema("meta"), call("set_meta", name="schema", value="4"))


@pytest.fixture
def peer() -> Iterator[Peer]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        served = Peer(listener)
        threading.Thread(target=served.serve, daemon=True).start()
        yield served
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def binding(peer: Peer, request: pytest.FixtureRequest) -> Iterator[Binding]:
    """A binding that is hasty only where the peer keeps it waiting: a busy machine must not look like a dead peer."""
    fault = request.node.callspec.params.get("fault") if hasattr(request.node, "callspec") else None
    opened = Binding(Exchange(peer.url, patience=HASTY if fault in {"stall", "dribble"} else PATIENCE))
    yield opened
    opened.close()


@pytest.fixture
def database(binding: Binding) -> D1Database:
    return D1Database(binding)


@pytest.mark.parametrize("fault", ["drop", "stall", "cut", "dribble"])
def test_a_read_without_an_answer_is_sent_again_over_a_fresh_connection(peer, database, fault: str):
    database.run(READ)
    peer.script = [fault, fault]

    database.run(READ)

    assert [request["intent"] for request in peer.requests] == ["read"] * 4
    assert len(set(peer.connections[-3:])) == 3


@pytest.mark.parametrize("fault", ["drop", "cut"])
@pytest.mark.clause("run.journal.d1-initialize")
def test_initialization_is_sent_again_as_a_read_is(peer, database, fault: str):
    peer.script = [fault, fault]

    database.run(*INITIALIZE)

    assert [request["intent"] for request in peer.requests] == ["initialize"] * 3


def test_a_health_probe_is_sent_again(peer, binding):
    peer.script = ["drop", "drop", (200, {"protocol": 1})]

    assert binding.health() == {"protocol": 1}


@pytest.mark.parametrize("fault", ["stall", "dribble"])
def test_a_read_is_given_up_after_three_attempts_each_within_its_time(peer, database, fault: str):
    peer.script = [fault] * 3
    began = time.monotonic()

    with pytest.raises(StorageBindingUnavailable) as raised:
        database.run(READ)

    assert (len(peer.requests), raised.value.applied) == (ATTEMPTS, "no")
    assert time.monotonic() - began < ATTEMPTS * HASTY.read_s + 2


def test_no_attempt_may_take_longer_than_fifteen_seconds():
    assert (ATTEMPTS, Patience().read_s) == (3, 15)


@pytest.mark.parametrize("fault", ["drop", "stall", "cut", "dribble"])
def test_a_write_without_an_answer_goes_once_and_is_unknown(peer, database, fault: str):
    peer.script = [fault]

    with pytest.raises(StorageBindingUnavailable) as raised:
        database.run(WRITE)

    assert ([request["intent"] for request in peer.requests], raised.value.applied) == (["write"], "unknown")


def test_every_write_goes_over_a_connection_of_its_own(peer, database):
    for _ in range(3):
        database.run(READ)
        database.run(WRITE)

    reading, writing = peer.connections[::2], peer.connections[1::2]
    assert (len(set(reading)), len(set(writing))) == (1, 3)
    assert not set(reading) & set(writing)


def test_a_write_that_found_nobody_to_send_to_was_not_applied():
    with closing(socket.create_server(("127.0.0.1", 0))) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}"
    database = D1Database(Binding(Exchange(url, patience=PATIENCE)))

    with pytest.raises(StorageBindingUnavailable) as raised:
        database.run(WRITE)

    assert raised.value.applied == "no"
    assert "see that CONTEXTFUL_BINDING_URL names" in str(raised.value)
    database.close()


@pytest.mark.parametrize("sent", [READ, WRITE], ids=["read", "write"])
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((409, {"constraint": "SQLITE_CONSTRAINT_CHECK", "text": "CHECK constraint failed: x"}), Refused),
        ((409, {"error": "SQLITE_ERROR", "text": "no such table: x"}), StorageUnusable),
        ((426, {"error": "protocol", "speaks": 2, "asked": 1}), StorageProtocolMismatch),
        ((400, {"error": "unacceptable", "text": "why"}), StorageUnusable),
        ((404, {}), StorageBindingUnavailable),
        ((302, {}), StorageBindingUnavailable),
        ((500, {"error": "inexact", "text": "why"}), StorageUnusable),
        ((503, {"error": "unavailable", "text": "Network connection lost."}), StorageBindingUnavailable),
        ((502, "no document of ours"), StorageBindingUnavailable),
    ],
)
def test_an_answer_that_is_an_error_is_the_answer_and_nothing_is_sent_again(peer, database, sent, answer, error):
    peer.script = [answer]

    with pytest.raises(error) as raised:
        database.run(sent)

    assert len(peer.requests) == 1
    if error is StorageBindingUnavailable:
        assert raised.value.applied == ("no" if sent is READ else "unknown")


@pytest.mark.parametrize(
    "answer",
    [(200, "a page"), (302, {}), (404, {}), (404, {"error": "unknown", "text": "nothing is served"}), (502, "a page")],
)
def test_whoever_is_no_binding_is_told_from_a_store_that_refuses(peer, database, answer):
    peer.script = [answer, (409, {"error": "SQLITE_ERROR", "text": "no such table: x"})]

    with pytest.raises((StorageUnusable, StorageBindingUnavailable), match="see that CONTEXTFUL_BINDING_URL names"):
        database.run(READ)
    with pytest.raises(StorageUnusable) as refused:
        database.run(READ)

    assert "CONTEXTFUL_BINDING_URL" not in str(refused.value)


def test_another_protocol_names_both_numbers_and_what_to_do(peer, database):
    peer.script = [(426, {"error": "protocol", "speaks": 2, "asked": 1})]

    with pytest.raises(StorageProtocolMismatch, match="speaks protocol 2, this engine speaks 1; deploy"):
        database.run(READ)


def test_no_proxy_of_the_environment_is_asked(peer, database, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    other = D1Database(Binding(Exchange(peer.url, patience=PATIENCE)))
    other.run(WRITE)
    other.run(READ)

    assert len(peer.requests) == 2
    other.close()


def statement(parameters: int) -> Statement:
    names = tuple(f"p{number}" for number in range(parameters))
    return Statement("many", f"SELECT {', '.join(f':{name}' for name in names)}", names, reads=True, durable=False)


def test_what_is_over_a_limit_of_d1_is_refused_before_anything_is_sent(peer, database):
    many = Call(statement(101), {f"p{number}": number for number in range(101)})
    long = call("set_meta", name="n", value="x" * 2_000_001)
    blob = call("store_content", digest="d", content=bytes(2_000_001))
    wide = call("set_meta", name="n", value="é" * 1_000_001)
    broken = call("set_meta", name="n", value=float("nan"))

    for refused in ((many,), (long,), (blob,), (wide,), (broken,), (READ,) * 1001):
        with pytest.raises(StorageLimitExceeded):
            database.run(*refused)

    assert peer.requests == []
    database.run(Call(statement(100), {f"p{number}": number for number in range(100)}))
    assert len(peer.requests) == 1


def test_parameters_are_numbered_by_name_and_values_keep_their_kind(peer, database):
    claimed = call("insert_run", run_id="r", fire_id=None, pipeline_id="p", execution_id="x", status="failed",
                   started_at=2**60, record="{}")  # fmt: skip

    database.run(claimed, call("store_content", digest="d", content=b"\x00\xff"))

    first, second = peer.requests[0]["statements"]
    assert first["sql"].count("?") == 7
    assert first["params"][5] == {"int": str(2**60)}
    assert first["params"][1] is None
    assert second["sql"].count("?1") == 2
    assert second["params"] == ["d", {"b64": "AP8="}]


def test_the_workers_clock_judges_unless_one_is_injected(peer, binding, clock):
    register = call("register_holder", holder="h", pid=1, boot_id="b", lease_ms=30_000)

    D1Database(binding).run(register)
    D1Database(binding, clock=clock).run(register)

    position = register.statement.parameters.index("now")
    assert peer.requests[0]["statements"][0]["params"][position] == {"now": True}
    assert peer.requests[1]["statements"][0]["params"][position] == clock.now()


def test_only_what_can_be_applied_twice_is_called_initialization(peer, database):
    upsert = call("cache_position", table_name="t", seq=1, commit_id="c", kind="k", position=None)

    database.run(*INITIALIZE, READ)
    database.run(*INITIALIZE, upsert)

    assert [request["intent"] for request in peer.requests] == ["initialize", "write"]
