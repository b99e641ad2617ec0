"""How requests leave: plain ones at once, those over TLS once the machine's trusted certificates are loaded."""

from __future__ import annotations

from functools import cached_property

import httpx


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
