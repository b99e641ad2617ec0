"""A body without its compression: in pieces of bounded size, and never taken for whole where it ends early.

A few kilobytes that are compressed twice may stand for gigabytes, so no more is made of them at a time than whoever
reads can look at. Codings that are not known are passed over: what is left of them will not be JSON.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator

CODINGS: Final = ("gzip", "deflate")
"""What a request accepts."""

_PIECE: Final = 1 << 20
"""Bytes of the longest piece."""

_GZIP: Final = zlib.MAX_WBITS | 16
_MEMBER: Final = 0x1F
"""The first byte of a member of gzip."""

_NAMES: Final = {"gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate"}


def inflated(response: httpx.Response) -> Iterator[bytes]:
    """The body of `response`, decompressed. Raise `httpx.DecodingError` where it is broken or ends early."""
    named = response.headers.get("content-encoding", "").lower().split(",")
    codings = [_NAMES[coding.strip()] for coding in named if coding.strip() in _NAMES]
    pieces = response.iter_raw() if codings else response.iter_bytes()
    for coding in reversed(codings):
        pieces = _without(coding, pieces)
    return pieces


def _without(coding: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """What the compressed `pieces` stand for. Gzip may have several members; what else follows is passed over."""
    stream, ended = None, False
    try:
        for piece in pieces:
            rest = piece
            while rest:
                if stream is None:
                    if ended and not _follows(coding, rest):
                        break
                    stream = zlib.decompressobj(_window(coding, rest))
                yield stream.decompress(rest, _PIECE)
                rest = stream.unconsumed_tail
                if stream.eof:
                    rest, stream, ended = stream.unused_data, None, True
        if stream:
            yield stream.flush()
    except zlib.error as error:
        raise httpx.DecodingError(str(error)) from error
    if stream and not stream.eof:
        raise httpx.DecodingError(f"its {coding} data ends before its end")


def _follows(coding: str, begins: bytes) -> bool:
    """Whether what `begins` so behind the end of compressed data is another member of it."""
    return coding == "gzip" and begins[0] == _MEMBER


def _window(coding: str, begins: bytes) -> int:
    """How zlib is to read what `begins` so; some servers send deflate without the header it should have."""
    if coding == "gzip":
        return _GZIP
    return zlib.MAX_WBITS if begins[0] & 0x0F == zlib.DEFLATED else -zlib.MAX_WBITS
