"""Compressed bodies: every way they may rightly come in, and how little is made of one at a time."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from typing import TYPE_CHECKING

import pytest

from engine.errors import ConnectorBoundHit, Transient
from engine.pipeline.sources import fetching

if TYPE_CHECKING:
    from tests.unit.sources.conftest import Reader, Site

BODY = b'[{"name": "na\xc3\xafve"}]'


def coding(value: str | bytes) -> str:
    """What names a case: compressed bytes hold the instant they were made at."""
    return value if isinstance(value, str) else "body"


def deflated(body: bytes) -> bytes:
    """`body` as deflate without the header it should have."""
    return zlib.compress(body, wbits=-zlib.MAX_WBITS)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("gzip", gzip.compress(BODY)),
        ("GZIP", gzip.compress(BODY)),
        ("x-gzip", gzip.compress(BODY)),
        ("deflate", zlib.compress(BODY)),
        ("deflate", deflated(BODY)),
        ("identity", BODY),
        ("utf-8", BODY),
        ("gzip, identity", gzip.compress(BODY)),
        ("deflate, gzip", gzip.compress(zlib.compress(BODY))),
        ("gzip", b"".join(gzip.compress(piece) for piece in (BODY[:5], BODY[5:9], b"", BODY[9:]))),
        ("gzip", gzip.compress(BODY) + bytes(512)),
        ("deflate", zlib.compress(BODY) + b"padding"),
    ],
    ids=coding,
)
def test_a_body_is_read_however_it_is_rightly_compressed(site: Site, reader: Reader, name: str, content: bytes) -> None:
    site.lay("/rows", raw=content, content_encoding=name)

    assert reader.rows() == [{"name": "naïve"}]


@pytest.mark.clause("run.retry.failure-taxonomy")
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("deflate", zlib.compress(BODY)[:-1]),
        ("deflate", deflated(BODY)[:-1]),
        ("gzip", gzip.compress(BODY[:5]) + gzip.compress(BODY[5:])[:-3]),
        ("gzip, gzip", gzip.compress(gzip.compress(BODY)[:-3])),
        ("gzip", gzip.compress(BODY)[:-8] + bytes(8)),
    ],
    ids=coding,
)
def test_a_body_whose_compression_is_broken_or_ends_early_is_transient(
    site: Site, reader: Reader, name: str, content: bytes
) -> None:
    site.lay("/rows", raw=content, content_encoding=name)

    with pytest.raises(Transient, match="broke off"):
        reader.rows()


@pytest.mark.clause("run.retry.bound-hit-is-transient")
def test_a_body_compressed_twice_is_looked_at_before_all_of_it_is_there(
    site: Site, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few hundred bytes on the way are sixty-four million in memory."""
    monkeypatch.setattr(fetching, "LARGEST_ANSWER", 1 << 20)
    bomb = gzip.compress(gzip.compress(bytes(64 << 20)))
    site.lay("/rows", raw=bomb, content_encoding="gzip, gzip")
    assert len(bomb) < 1 << 10

    tracemalloc.start()
    with pytest.raises(ConnectorBoundHit) as refusal:
        reader.rows()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert refusal.value.bound == "linear-memory"
    assert peak < 16 << 20
