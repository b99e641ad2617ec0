"""Answers that are not a bucket's: what was written stays unknown, and nothing is absent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import StorageBindingUnavailable
from r2 import s3
from r2.s3 import S3Keys, Settings
from tests.answering import listening
from tests.unit.d1.foreign import PAGE, Foreign, Scripted
from tests.unit.r2.test_foreign_objects import READS, WRITES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VERBS = READS | {name: write for name, write in WRITES.items() if name != "delete"}


@pytest.fixture
def peer() -> Foreign:
    return Foreign()


@pytest.fixture
def keys(peer: Foreign, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Keys]:
    monkeypatch.setattr(s3, "ATTEMPTS", 1)
    with listening(Scripted, script=peer.script, came=peer.came) as url:
        settings = Settings(bucket="shop", endpoint=url, region="auto", prefix="", access_key="id", secret_key="secret")
        opened = S3Keys(s3._client(settings), settings)
        yield opened
        opened.close()


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("status", [200, 404, 412, 429])
def test_who_is_no_bucket_cannot_tell_what_it_holds(peer, keys, verb: str, status: int):
    ask: Callable[[S3Keys], object] = VERBS[verb]
    peer.answers(status, PAGE, {"content-type": "text/html"})

    with pytest.raises(StorageBindingUnavailable, match="none of a bucket's answers") as raised:
        ask(keys)

    assert raised.value.applied == ("no" if verb in READS else "unknown")
    assert "CONTEXTFUL_S3_ENDPOINT" in raised.value.remedy


def test_a_page_that_is_deleted_stays_to_be_deleted(peer, keys):
    peer.answers(404, PAGE)

    with pytest.raises(StorageBindingUnavailable, match="none of a bucket's answers"):
        keys.delete("corpus/a")


def test_a_bucket_that_calls_its_answer_to_a_head_a_page_is_believed_by_its_request_id(peer, keys):
    peer.answers(404, b"", {"content-type": "text/html; charset=UTF-8", "x-amz-request-id": "4442587FB7D0A2F9"})

    assert keys.head("corpus/a") is None
