"""Connections none of whose steps outlives the deadline of the request under way.

A client's own timeouts bound each step, and a peer that dribbles passes them forever.
"""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import httpcore
import httpx

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Iterator

_CHUNK: Final = 65_536
_ends_at: Final[ContextVar[float]] = ContextVar("ends_at", default=math.inf)


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Bound every step of a connection that this thread takes in the block, all of them together."""
    outer = _ends_at.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _ends_at.reset(outer)


class BoundedTransport(httpx.HTTPTransport):
    """A transport of requests that keep to the deadline, with at most `kept` idle connections for the next ones."""

    def __init__(self, *, kept: int) -> None:
        super().__init__(verify=False, trust_env=False)
        # The client's own constructor takes no network backend.
        self._pool = httpcore.ConnectionPool(
            network_backend=BoundedBackend(), max_keepalive_connections=kept, keepalive_expiry=30
        )


class BoundedBackend(httpcore.NetworkBackend):
    """Opens connections that keep to the deadline."""

    def __init__(self) -> None:
        self._plain = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect."""
        left = _left(timeout, httpcore.ConnectTimeout)
        return BoundedStream(self._plain.connect_tcp(host, port, left, local_address, socket_options))


class BoundedStream(httpcore.NetworkStream):
    """A stream whose every read and write ends by the deadline."""

    def __init__(self, plain: httpcore.NetworkStream) -> None:
        self._plain = plain

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read."""
        return self._plain.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write, looking at the deadline between pieces."""
        for start in range(0, len(buffer), _CHUNK):
            self._plain.write(buffer[start : start + _CHUNK], _left(timeout, httpcore.WriteTimeout))

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Go on over TLS."""
        left = _left(timeout, httpcore.ConnectTimeout)
        return BoundedStream(self._plain.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        """What the pool asks of a stream."""
        return self._plain.get_extra_info(info)

    def close(self) -> None:
        """Close."""
        self._plain.close()


def _left(timeout: float | None, expired: type[httpcore.TimeoutException]) -> float | None:
    left = _ends_at.get() - time.monotonic()
    if left <= 0:
        raise expired("the deadline of the request has passed")
    bounds = [bound for bound in (timeout, left) if bound is not None and bound < math.inf]
    return min(bounds) if bounds else None
