from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import httpx
import pytest

from engine.errors import (
    AuthExpired,
    ConnectorBoundHit,
    ContextfulError,
    Permanent,
    RateLimited,
    SourceShape,
    Transient,
)
from engine.pipeline.declaration import Paginate
from engine.pipeline.source import Ask
from engine.pipeline.sources import fetching
from engine.pipeline.sources.answers import LONGEST_WAIT_MS, failure, waits
from engine.pipeline.sources.http import HttpPages
from engine.shapes import FailureTag

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from tests.unit.sources.conftest import Reader, Site

NOON = int(datetime(2026, 11, 29, 12, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("status", "tag"),
    [
        (304, FailureTag.PERMANENT), (400, FailureTag.PERMANENT), (401, FailureTag.AUTH_EXPIRED),
        (403, FailureTag.AUTH_EXPIRED), (404, FailureTag.PERMANENT), (408, FailureTag.TRANSIENT),
        (410, FailureTag.PERMANENT), (422, FailureTag.PERMANENT), (425, FailureTag.TRANSIENT),
        (429, FailureTag.RATE_LIMITED), (500, FailureTag.TRANSIENT), (503, FailureTag.TRANSIENT),
        (599, FailureTag.TRANSIENT),
    ],
)  # fmt: skip
@pytest.mark.clause("run.retry.failure-taxonomy", "run.retry.one-layer")
def test_each_status_fails_under_its_tag_after_one_request(
    site: Site, reader: Reader, status: int, tag: FailureTag
) -> None:
    site.lay("/rows", status=status, raw=b"" if status == 304 else b"  sorry,\n not now " + b"x" * 500)

    with pytest.raises(ContextfulError) as refusal:
        reader.rows()

    assert refusal.value.tag is tag
    assert refusal.value.message.startswith(f"GET {site.url}/rows answered {status}")
    assert len(refusal.value.message) < 400
    assert len(site.came) == 1


def test_a_refusal_quotes_what_the_server_said(site: Site, reader: Reader) -> None:
    site.lay("/rows", {"message": "no such\nfilter"}, status=422)

    with pytest.raises(Permanent, match="no such"):
        reader.rows()


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("0", 0), ("7", 7_000), (" 120 ", 120_000), ("Sun, 29 Nov 2026 12:00:30 GMT", 30_000),
        ("Sun, 29 Nov 2026 11:00:00 GMT", 0), ("soon", None), ("-1", None), ("1.5", None), ("", None), ("²", None),
        ("99999999999999999999", LONGEST_WAIT_MS), ("9" * 9000, LONGEST_WAIT_MS), ("0" * 9000 + "7", 7_000),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_WAIT_MS), ("Fri, 31 Dec 99999 23:59:59 GMT", None), (None, None),
    ],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date(text: str | None, wait: int | None) -> None:
    assert waits(text, now=NOON) == wait


@pytest.mark.clause("run.retry.one-layer")
def test_a_throttle_carries_its_wait_instead_of_sleeping(site: Site, reader: Reader) -> None:
    site.lay("/rows", status=429, Retry_After="90")

    with pytest.raises(RateLimited) as refusal:
        reader.rows()

    assert refusal.value.wait_ms == 90_000
    assert len(site.came) == 1


@pytest.mark.clause("run.retry.one-layer")
def test_an_overload_that_names_its_wait_is_a_throttle_and_without_one_transient() -> None:
    named, silent = (failure(503, "GET /", retry_after=text, now=NOON) for text in ("3", None))

    assert isinstance(named, RateLimited)
    assert named.wait_ms == 3_000
    assert isinstance(silent, Transient)
    assert isinstance(failure(403, "GET /", retry_after="3", now=NOON), AuthExpired)
    assert isinstance(failure(404, "GET /", retry_after="3", now=NOON), Permanent)


def test_no_content_is_an_empty_page(site: Site, reader: Reader) -> None:
    site.lay("/rows", status=204, raw=b"")

    for by in (Paginate(by="next-url", field="next"), Paginate(by="token", field="t", param="t"), None):
        assert reader.rows(records="items", paginate=by) == []


@pytest.mark.clause("run.retry.failure-taxonomy")
def test_a_body_cut_off_by_the_connection_is_transient(site: Site, reader: Reader) -> None:
    site.lay("/rows", raw=b'[{"id": 1}', promised=500)

    with pytest.raises(Transient, match="broke off"):
        reader.rows()


@pytest.mark.clause("run.retry.failure-taxonomy")
def test_a_server_that_is_not_there_is_transient(reader: Reader) -> None:
    with pytest.raises(Transient, match=r"127\.0\.0\.1:1/rows broke off"):
        reader.rows(url="http://127.0.0.1:1/rows")


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b'[{"id": 1}', "10 bytes beginning"),
        (b"<!doctype html><h1>Down", "text/html"),
        (b'[{"name": "\xff"}]', "\\xff"),
        (b"", "0 bytes"),
        (b"[1e999]", "out of range"),
        (b"[" * 5000, "recursion"),
        (b"[NaN]", "NaN"),
        (b'[{"name": "\\ud83d\\ude00"}', "truncated"),
        (b'[{"name": "\\ud83d\\ude', "truncated"),
        (b'[{"name": "\\\\ud83d', "truncated"),
    ],
)
def test_a_body_that_is_no_json_is_quoted_with_its_content_type(
    site: Site, reader: Reader, raw: bytes, said: str
) -> None:
    site.lay("/rows", raw=raw, content_type="text/html" if raw.startswith(b"<") else "application/json")

    with pytest.raises(SourceShape) as refusal:
        reader.rows()

    assert refusal.value.place == f"GET {site.url}/rows"
    assert said in refusal.value.found
    assert refusal.value.tag is FailureTag.PERMANENT


@pytest.mark.parametrize("text", ["\\ud83d", "\\ud83d and more", "\\ude00", "\\ud83d\\u0041", "\\ud83d\\ude00 \\uD83D"])
def test_half_a_surrogate_pair_is_told_as_what_it_is(site: Site, reader: Reader, text: str) -> None:
    site.lay("/rows", raw=b'[{"name": "%b"}]' % text.encode())

    with pytest.raises(SourceShape) as refusal:
        reader.rows()

    half = text.replace("\\ud83d\\ude00 ", "")[:6]
    assert f"{half} at byte {11 + text.index(half)} is half of a surrogate pair" in refusal.value.found
    assert "truncated" not in refusal.value.found


@pytest.mark.parametrize(
    ("body", "records", "path", "found"),
    [
        ({"data": []}, "items", "items", "nothing, in an object with the keys data"),
        ({"items": None}, "items", "items", "null"),
        ({"items": {"id": 1}}, "items", "items", "an object with the keys id"),
        ({"a": [{}]}, "a.b", "a.b", "a list of 1"),
        ({"items": [{"id": 1}, 7]}, "items", "items[1]", "the number 7"),
        ({"id": 1}, None, "the body", "an object with the keys id"),
        ([{"id": 1}, "x"], None, "the body[1]", "the text 'x'"),
        ([True], None, "the body[0]", "true"),
        ([], "items", "items", "a list of 0"),
    ],
)
def test_json_that_is_not_what_the_manifest_says_names_path_and_what_stood_there(
    site: Site, reader: Reader, body: object, records: str | None, path: str, found: str
) -> None:
    site.lay("/rows", body)

    with pytest.raises(SourceShape) as refusal:
        reader.rows(records=records)

    assert (refusal.value.path, refusal.value.found) == (path, found)


def test_compressed_bodies_and_a_byte_order_mark_are_understood(site: Site, reader: Reader) -> None:
    body = b'\xef\xbb\xbf[{"name": "na\xc3\xafve"}]'
    site.lay("/rows", raw=gzip.compress(body), content_encoding="gzip")
    site.lay("/deflated", raw=zlib.compress(body), content_encoding="deflate")

    assert reader.rows() == reader.rows("/deflated") == [{"name": "naïve"}]


@pytest.mark.clause("run.retry.failure-taxonomy")
def test_a_body_that_does_not_decompress_is_transient(site: Site, reader: Reader) -> None:
    site.lay("/rows", raw=b"not gzip at all", content_encoding="gzip")

    with pytest.raises(Transient):
        reader.rows()


@pytest.mark.clause("run.retry.failure-taxonomy")
@pytest.mark.parametrize("left", [1, 12, 30, -9, -1])
def test_a_compressed_body_that_ends_early_in_its_announced_length_is_transient(
    site: Site, reader: Reader, left: int
) -> None:
    site.lay("/rows", raw=gzip.compress(b'[{"name": "%b"}]' % b"naive" * 9)[:left], content_encoding="gzip")

    with pytest.raises(Transient, match="broke off: its gzip data ends before its end"):
        reader.rows()


def test_no_body_is_no_compressed_one_cut_off(site: Site, reader: Reader) -> None:
    site.lay("/rows", status=204, raw=b"", content_encoding="gzip")

    assert reader.rows() == []


@pytest.mark.clause("run.retry.bound-hit-is-transient")
def test_an_answer_past_the_bound_names_it(site: Site, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fetching.LARGEST_ANSWER == 256 * 1024 * 1024
    monkeypatch.setattr(fetching, "LARGEST_ANSWER", 1 << 20)
    site.lay("/rows", raw=gzip.compress(b" " * (1 << 20) + b"[]"), content_encoding="gzip")

    with pytest.raises(ConnectorBoundHit) as refusal:
        reader.rows()

    assert refusal.value.bound == "linear-memory"
    assert refusal.value.tag is FailureTag.TRANSIENT


@dataclass
class Striding:
    """A clock that moves ten seconds whenever it is read."""

    at: int = NOON

    def now(self) -> int:
        self.at += 10_000
        return self.at

    def elapsed(self) -> int:
        raise AssertionError

    def wait(self, event: threading.Event, milliseconds: float) -> bool:
        raise AssertionError


class Dripping(httpx.SyncByteStream):
    """A body that keeps coming, a byte at a time, so that no single read is ever late."""

    def __iter__(self) -> Iterator[bytes]:
        for _ in range(1000):
            yield b" "


@pytest.mark.clause("run.retry.bound-hit-is-transient")
def test_a_body_that_drips_past_the_deadline_names_the_bound(reader: Reader) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, stream=Dripping()))
    source = HttpPages(reader.table(timeout_ms=30_000), clock=Striding())

    with httpx.Client(transport=transport) as client, pytest.raises(ConnectorBoundHit) as refusal:
        list(source.pulls(Ask(client=lambda: client)))

    assert (refusal.value.bound, refusal.value.limit) == ("call-deadline", "30 s a read")


@pytest.mark.parametrize("error", [httpx.ReadTimeout, httpx.ConnectTimeout])
@pytest.mark.clause("run.retry.bound-hit-is-transient")
def test_a_silent_server_names_the_bound(reader: Reader, error: type[httpx.TransportError]) -> None:
    def silent(request: httpx.Request) -> httpx.Response:
        assert request.extensions["timeout"]["read"] == 2.5
        raise error("timed out")

    source = HttpPages(reader.table(timeout_ms=2_500))
    with httpx.Client(transport=httpx.MockTransport(silent)) as client, pytest.raises(ConnectorBoundHit) as refusal:
        list(source.pulls(Ask(client=lambda: client)))

    assert "2.5 s" in str(refusal.value)


def test_what_was_read_before_a_failure_was_given_before_it(site: Site, reader: Reader) -> None:
    site.lay("/rows?page=1", [{"id": 1}])
    site.lay("/rows?page=2", status=500)
    pulls = reader.pulls(paginate=Paginate(by="page", param="page"))

    first = next(pulls)
    with pytest.raises(Transient, match="page=2"):
        next(pulls)

    assert (first.rows, first.position) == ([{"id": 1}], {"page": 2})
