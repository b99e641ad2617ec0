"""Answers about objects that are not the binding's: what was written stays unknown, and nothing is absent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.binding import Exchange, Patience
from engine.errors import StorageBindingUnavailable, StorageUnusable
from r2.binding import BindingKeys
from r2.keys import Facts
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
READS = {
    "get": lambda keys: keys.get("corpus/a"),
    "head": lambda keys: keys.head("corpus/a"),
    "list": lambda keys: list(keys.list("corpus/")),
}
AS_A_PAGE = {"content-type": "text/html", "etag": '"5e3-1a"'}
LISTED = {"key": "corpus/a", "size": 1, "etag": "e", "uploaded": 1}


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
    peer.answers(status, PAGE, AS_A_PAGE)

    with pytest.raises(StorageBindingUnavailable, match="see that CONTEXTFUL_BINDING_URL names") as raised:
        read(keys)

    assert (len(peer.came), raised.value.applied) == (1, "no")


@pytest.mark.parametrize("size", [None, "", "large", "-1"])
def test_facts_without_their_size_are_none_of_the_bindings(peer, keys, size: str | None):
    peer.answers(200, b"", {"etag": '"e"'} | ({} if size is None else {"object-size": size}))

    with pytest.raises(StorageBindingUnavailable, match="none of the binding's answers"):
        keys.head("corpus/a")


@pytest.mark.parametrize(
    "page",
    [
        {"objects": [LISTED]},
        {"objects": [LISTED], "cursor": 7},
        {"objects": {"corpus/a": 1}, "cursor": None},
        {"objects": None, "cursor": None},
        {"objects": ["corpus/a"], "cursor": None},
        *({"objects": [LISTED | {name: []}], "cursor": None} for name in LISTED),
        *({"objects": [{n: v for n, v in LISTED.items() if n != name}], "cursor": None} for name in LISTED),
        {"objects": [LISTED | {"key": "other/a"}], "cursor": None},
    ],
)
def test_a_listing_of_another_shape_is_none_of_the_bindings(peer, keys, page: object):
    peer.answers(200, page)

    with pytest.raises(StorageBindingUnavailable, match="none of the binding's answers"):
        list(keys.list("corpus/"))


def test_a_listing_that_leads_to_itself_is_none_of_the_bindings(peer, keys):
    peer.answers(200, {"objects": [LISTED], "cursor": "again"}, times=3)

    with pytest.raises(StorageBindingUnavailable, match="none of the binding's answers"):
        list(keys.list("corpus/"))

    assert len(peer.came) == 2


def test_an_object_whose_writing_gets_an_answer_that_cannot_be_decoded_is_unknown(peer, keys):
    peer.answers(200, b"\x1f\x8bgarbage", {"content-encoding": "gzip"})

    with pytest.raises(StorageBindingUnavailable) as raised:
        keys.create("corpus/a", b"a")

    assert (len(peer.came), raised.value.applied) == (1, "unknown")


def test_what_the_binding_itself_says_of_an_object_is_taken_for_it(peer, keys):
    peer.answers(404, {"error": "missing", "text": "there is no object corpus/a"})
    peer.answers(412, {"error": "precondition", "text": "corpus/a is not as the condition says"})
    peer.answers(422, {"error": "digest", "text": "the body does not have that SHA-256"})

    peer.answers(200, b"", {"etag": '"e"', "object-size": "5"})
    peer.answers(404, b"")
    peer.answers(200, {"objects": [LISTED], "cursor": "more"})
    peer.answers(200, {"objects": [LISTED | {"key": "corpus/b"}], "cursor": None})

    assert keys.get("corpus/a") is None
    assert not keys.create("corpus/a", b"a")
    with pytest.raises(StorageUnusable, match="SHA-256"):
        keys.create("corpus/a", b"a")
    assert keys.head("corpus/a") == Facts("corpus/a", 5, "e", 0)
    assert keys.head("corpus/a") is None
    assert [facts.key for facts in keys.list("corpus/")] == ["corpus/a", "corpus/b"]
