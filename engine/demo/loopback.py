"""The frame of a small HTTP server: something at work on a loopback port of its own."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

if TYPE_CHECKING:
    from types import TracebackType

S = TypeVar("S", bound="Served")


class Served:
    """Answers requests from `with` to its end, at which `_closing` is set: what holds a request back waits on that."""

    def __init__(self, server: type[Server[Self]], handler: type[BaseHTTPRequestHandler]) -> None:
        self._closing = threading.Event()
        self._server = server(self, handler)
        name = type(self).__name__
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Where it listens, without a slash at the end."""
        return f"http://127.0.0.1:{self._server.server_port}"


class Server(ThreadingHTTPServer, Generic[S]):
    """The server of what is `served`: its handlers find it here, and each request is over before the server is."""

    daemon_threads = False

    def __init__(self, served: S, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.served = served

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: connections that break are what these servers are for."""
