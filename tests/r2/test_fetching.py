"""A read that finds its parts in a bucket asks for several at a time, and never for too many."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from engine.binding import Exchange, Patience
from engine.corpus.fetch import AT_ONCE, fetched
from engine.corpus.read import ReadFace
from engine.errors import StorageBindingUnavailable
from engine.shapes import WriteMode
from r2.binding import BindingKeys
from r2.objects import BucketObjects
from r2.s3 import S3Keys, Settings, _client
from tests.edge.faults import Fault, FaultProxy, How
from tests.unit.corpus.conftest import Corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from r2.keys import Keys

LATENCY_S = 0.1
PARTS = 24
COMMITS = 12
PATIENCE = Patience(read_s=10, pause_s=0.01)


@pytest.fixture
def proxy(request: pytest.FixtureRequest, fresh_edge: Callable[[], dict[str, str]]) -> Iterator[FaultProxy]:
    """What lies between engine and bucket, as far away as a bucket is."""
    over = request.node.callspec.params["keys"]
    target = fresh_edge()["CONTEXTFUL_BINDING_URL"] if over == "binding" else s3(request)["CONTEXTFUL_S3_ENDPOINT"]
    with FaultProxy(target, latency_s=LATENCY_S) as running:
        yield running


@pytest.fixture(params=["binding", "s3"])
def keys(request: pytest.FixtureRequest, proxy: FaultProxy) -> Iterator[Keys]:
    if request.param == "binding":
        opened: BindingKeys | S3Keys = BindingKeys(Exchange(proxy.url, patience=PATIENCE))
    else:
        settings = Settings.of(s3(request) | {"CONTEXTFUL_S3_ENDPOINT": proxy.url})
        opened = S3Keys(_client(settings), settings)
    with closing(opened):
        yield opened


def s3(request: pytest.FixtureRequest) -> dict[str, str]:
    found: dict[str, str] = request.getfixturevalue("s3_folder")
    return found


@pytest.fixture
def corpus(tmp_path: Path, keys: Keys) -> Corpus:
    """A table of `PARTS` parts of one row each; no copy of any is here."""
    corpus = Corpus(tmp_path)
    corpus.objects = BucketObjects(keys, tmp_path / "written")  # type: ignore[assignment] # declared for a folder
    corpus.land("r-1", *([{"id": number, "v": "a"}] for number in range(PARTS)))
    corpus.objects = BucketObjects(keys, tmp_path / "copies")  # type: ignore[assignment] # as above
    return corpus


def test_the_parts_of_a_read_are_fetched_several_at_a_time(corpus, proxy):
    proxy.arm(None)
    proxy.most_at_once = 0

    rows, seconds = timed(lambda: ReadFace(corpus.objects).read("SELECT id FROM t ORDER BY id").rows)

    requests = len(proxy.came())
    print(f"{PARTS} parts: {requests} requests in {seconds:.2f} s, at most {proxy.most_at_once} at once")
    assert rows == [(number,) for number in range(PARTS)]
    assert proxy.most_at_once == AT_ONCE
    assert requests == PARTS + 2


def test_a_read_is_one_listing_and_one_request_for_each_marker_and_part(corpus, proxy):
    for number in range(COMMITS - 1):
        corpus.land(f"r-{number + 2}", [{"id": PARTS + number, "v": "a"}])
    corpus.objects = BucketObjects(corpus.objects._keys, corpus.root / "read")
    proxy.arm(None)
    proxy.most_at_once = 0

    assert corpus.read("SELECT count(*) FROM t").rows == [(PARTS + COMMITS - 1,)]

    assert asked(proxy) == {"list": 1, "markers": COMMITS, "parts": PARTS + COMMITS - 1}
    assert proxy.most_at_once == AT_ONCE


def test_of_what_was_read_before_only_the_markers_are_asked_for_again(corpus, proxy):
    read = corpus.read("SELECT id FROM t ORDER BY id").rows
    proxy.arm(None)

    assert corpus.read("SELECT id FROM t ORDER BY id").rows == read
    assert asked(proxy) == {"list": 1, "markers": 1}


def test_a_table_that_every_run_replaces_is_read_by_its_newest_marker(corpus, proxy):
    for number in range(COMMITS):
        corpus.land(f"r-{number + 2}", [{"id": number, "v": "a"}], mode=WriteMode.REPLACE)
    proxy.arm(None)

    assert corpus.read("SELECT id FROM t").rows == [(COMMITS - 1,)]
    assert asked(proxy) == {"list": 1, "markers": 1, "parts": 1}


def test_a_copy_is_taken_for_what_it_holds_and_nothing_else(corpus, proxy):
    (name, *_) = corpus.names("t/parts/")
    content = corpus.objects.get(name)
    known = hashlib.sha256(content).hexdigest()
    corpus.objects.put(name, b"damaged")

    assert corpus.objects.local(name, sha256=known).read_bytes() == b"damaged"
    corpus.objects.put(name, content)

    assert corpus.objects.local(name, sha256=known).read_bytes() == content


def test_a_part_that_cannot_be_fetched_ends_the_fetch(corpus, proxy):
    parts = corpus.newest.parts
    proxy.arm(Fault(How.DEAD, 4, seconds=30))

    with pytest.raises(StorageBindingUnavailable):
        fetched(corpus.objects, parts)

    # Each that was under way is asked for three times, and nothing else is.
    assert len(proxy.came()) <= 4 + AT_ONCE * 3


def asked(proxy: FaultProxy) -> dict[str, int]:
    """How often which kind of object was asked for."""
    kinds = {"/commits/": "markers", "/parts/": "parts"}
    paths = [each.path.partition("?")[0] for each in proxy.came()]
    return Counter(next((kind for folder, kind in kinds.items() if folder in path), "list") for path in paths)


def timed(work: Callable[[], list[tuple[int]]]) -> tuple[list[tuple[int]], float]:
    begun = time.monotonic()
    return work(), time.monotonic() - begun
