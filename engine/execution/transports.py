"""How requests leave: plain ones at once, those over TLS once the machine's trusted certificates are loaded."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import httpx

if TYPE_CHECKING:
    from collections.abc import Callable

UNCONNECTED: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
"""What is raised before there is a connection: nothing of the request has left."""


class Telling(httpx.BaseTransport):
    """A transport that tells `unsent` of every request for which no connection was ever made."""

    def __init__(self, transport: httpx.BaseTransport, *, unsent: Callable[[], None]) -> None:
        self._transport = transport
        self._unsent = unsent

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send `request`."""
        try:
            return self._transport.handle_request(request)
        except UNCONNECTED:
            self._unsent()
            raise

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()


class LateTls(httpx.BaseTransport):
    """A transport that is made with the first request it carries.

    Loading the trusted certificates costs 20 to 30 ms, which a run that reads files or asks a plain server need not
    spend.
    """

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send `request`."""
        return self._made.handle_request(request)

    def close(self) -> None:
        """Close the connections, if any was ever opened."""
        if "_made" in self.__dict__:
            self._made.close()

    @cached_property
    def _made(self) -> httpx.HTTPTransport:
        return httpx.HTTPTransport(trust_env=False)


def plain() -> httpx.HTTPTransport:
    """The transport of `http://` requests, which verify nothing."""
    return httpx.HTTPTransport(verify=False, trust_env=False)
