"""Answers that are not the binding's, or cannot be read: whether a write was applied stays unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from d1.binding import Binding
from d1.database import D1Database
from engine.binding import ATTEMPTS, Exchange, Patience
from engine.errors import StorageBindingUnavailable, StorageUnusable
from engine.sql import call, schema
from tests.answering import listening
from tests.unit.d1.foreign import PAGE, Foreign, Scripted

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.clause("run.journal.d1-transport")

WRITE = (call("forget_cursor", table_name="t"),)
READ = (call("read_meta"),)
INITIALIZE = (*schema("meta"), call("set_meta", name="schema", value="4"))
GARBLED = {"content-encoding": "gzip"}
RESULT = {"rows": [], "changes": 0, "rows_read": 0, "rows_written": 0}
WELL = {"results": [RESULT]}


@pytest.fixture
def peer() -> Foreign:
    return Foreign()


@pytest.fixture
def database(peer: Foreign) -> Iterator[D1Database]:
    with listening(Scripted, script=peer.script, came=peer.came) as url:
        opened = D1Database(Binding(Exchange(url, patience=Patience(pause_s=0.01))))
        yield opened
        opened.close()


def test_a_write_whose_answer_cannot_be_decoded_goes_once_and_is_unknown(peer, database):
    peer.answers(200, b"\x1f\x8bgarbage", GARBLED)

    with pytest.raises(StorageBindingUnavailable, match="DecodingError") as raised:
        database.run(*WRITE)

    assert (len(peer.came), raised.value.applied) == (1, "unknown")


def test_a_read_whose_answer_cannot_be_decoded_is_sent_again(peer, database):
    peer.answers(200, b"\x1f\x8bgarbage", GARBLED, times=2)
    peer.answers(200, WELL)

    assert database.run(*READ) == [[]]


@pytest.mark.parametrize(("sent", "applied"), [(READ, "no"), (INITIALIZE, "unknown")], ids=["read", "initialize"])
def test_what_is_sent_again_is_given_up_when_no_answer_can_be_decoded(peer, database, sent, applied: str):
    peer.answers(200, b"\x1f\x8bgarbage", GARBLED, times=ATTEMPTS)

    with pytest.raises(StorageBindingUnavailable) as raised:
        database.run(*sent)

    assert (len(peer.came), raised.value.applied) == (ATTEMPTS, applied)


def test_answers_are_asked_for_as_they_are(peer, database):
    peer.answers(200, WELL, times=2)

    database.run(*READ)
    database.run(*WRITE)

    assert [encoding for _, encoding in peer.came] == ["identity"] * 2


@pytest.mark.parametrize(("sent", "applied"), [(READ, "no"), (WRITE, "unknown")], ids=["read", "write"])
@pytest.mark.parametrize(
    ("status", "content"),
    [
        (200, PAGE),
        (200, {"success": True}),
        (200, b"[" * 100_000),
        (302, b""),
        (400, {"error": "bad request", "text": "why"}),
        (404, PAGE),
        (408, b""),
        (409, {"error": "busy", "text": "why"}),
        (426, PAGE),
        (429, PAGE),
        (429, {"error": {"code": 1015}}),
        (500, PAGE),
    ],
    ids=lambda each: str(each)[:24],
)
def test_who_is_not_the_binding_cannot_tell_whether_a_write_was_applied(
    peer, database, sent, applied: str, status: int, content
):
    peer.answers(status, content)

    with pytest.raises(StorageBindingUnavailable, match="see that CONTEXTFUL_BINDING_URL names") as raised:
        database.run(*sent)

    assert (len(peer.came), raised.value.applied) == (1, applied)


@pytest.mark.parametrize(("sent", "applied"), [(READ, "no"), (WRITE, "unknown")], ids=["read", "write"])
@pytest.mark.parametrize(
    "results",
    [
        None, "rows", {"rows": []}, [], [RESULT, RESULT], ["rows"],
        *([{name: value for name, value in RESULT.items() if name != gone}] for gone in ("rows", "rows_read")),
        *([RESULT | {"rows": rows}] for rows in ("rows", ["row"], [[{"b64": "?"}]], [[{"int": "many"}]], [[{"x": 1}]])),
        [RESULT | {"rows_written": "many"}],
    ],
    ids=str,
)  # fmt: skip
def test_results_of_another_shape_are_none_of_the_bindings(peer, database, sent, applied: str, results: object):
    peer.answers(200, {"results": results})

    with pytest.raises(StorageBindingUnavailable, match="none of the binding's answers") as raised:
        database.run(*sent)

    assert (len(peer.came), raised.value.applied) == (1, applied)


@pytest.mark.parametrize(
    ("status", "error"), [(400, "unacceptable"), (404, "unknown"), (409, "SQLITE_ERROR")], ids=str
)  # fmt: skip
def test_a_write_that_the_binding_itself_refuses_was_refused(peer, database, status: int, error: str):
    peer.answers(status, {"error": error, "text": "why"})

    with pytest.raises(StorageUnusable, match="why"):
        database.run(*WRITE)
