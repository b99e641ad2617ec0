"""Answers about objects that are not the binding's: what was written stays unknown, and nothing is absent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.binding import Exchange, Patience
from engine.errors import StorageBindingUnavailable, StorageUnusable
from r2.binding import BindingKeys
from tests.answering import listening
from tests.unit.d1.foreign import PAGE, Foreign, Scripted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.clause("run.journal.d1-transport")

WRITES = {
    "create": lambda keys: keys.create("corpus/a", b"a"),
    "put": lambda keys: keys.put("corpus/a", b"a", replacing=None),
    "delete": lambda keys: keys.delete("corpus/a"),
}
READS = {"get": lambda keys: keys.get("corpus/a"), "list": lambda keys: list(keys.list("corpus/"))}


@pytest.fixture
def peer() -> Foreign:
    return Foreign()


@pytest.fixture
def keys(peer: Foreign) -> Iterator[BindingKeys]:
    with listening(Scripted, script=peer.script, came=peer.came) as url:
        opened = BindingKeys(Exchange(url, patience=Patience(pause_s=0.01)))
        yield opened
        opened.close()


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("status", [200, 302, 400, 404, 408, 412, 429, 502])
def test_who_is_not_the_binding_cannot_tell_whether_an_object_was_written(
    peer, keys, write: Callable[[BindingKeys], bool], status: int
):
    peer.answers(status, PAGE)

    with pytest.raises(StorageBindingUnavailable, match="see that CONTEXTFUL_BINDING_URL names") as raised:
        write(keys)

    assert (len(peer.came), raised.value.applied) == (1, "unknown")


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("status", [200, 404, 429])
def test_who_is_not_the_binding_cannot_tell_that_an_object_is_absent(
    peer, keys, read: Callable[[BindingKeys], object], status: int
):
    peer.answers(status, PAGE)

    with pytest.raises(StorageBindingUnavailable) as raised:
        read(keys)

    assert (len(peer.came), raised.value.applied) == (1, "no")


def test_an_object_whose_writing_gets_an_answer_that_cannot_be_decoded_is_unknown(peer, keys):
    peer.answers(200, b"\x1f\x8bgarbage", {"content-encoding": "gzip"})

    with pytest.raises(StorageBindingUnavailable) as raised:
        keys.create("corpus/a", b"a")

    assert (len(peer.came), raised.value.applied) == (1, "unknown")


def test_what_the_binding_itself_says_of_an_object_is_taken_for_it(peer, keys):
    peer.answers(404, {"error": "missing", "text": "there is no object corpus/a"})
    peer.answers(412, {"error": "precondition", "text": "corpus/a is not as the condition says"})
    peer.answers(422, {"error": "digest", "text": "the body does not have that SHA-256"})

    assert keys.get("corpus/a") is None
    assert not keys.create("corpus/a", b"a")
    with pytest.raises(StorageUnusable, match="SHA-256"):
        keys.create("corpus/a", b"a")
