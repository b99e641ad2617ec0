"""`GET /healthz`: the serve process answers. It touches no store, and nothing else is served."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import TYPE_CHECKING, Any

from engine.errors import AddressUnusable

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOOK_S = 0.1


@contextmanager
def health(host: str, port: int) -> Iterator[str]:
    """Answer on `host` and `port` (0: a free one) for the block; the value is the address of the answer.

    Raise `AddressUnusable` where it cannot be listened on.
    """
    try:
        server = _Server(host, port)
    except OSError as failure:
        raise AddressUnusable(host=host, port=port, reason=failure.strerror or str(failure)) from failure
    thread = threading.Thread(target=server.serve_forever, args=(_LOOK_S,), name="contextful-health", daemon=True)
    thread.start()
    shown = f"[{host}]" if ":" in host else host
    try:
        yield f"http://{shown}:{server.server_address[1]}/healthz"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Answer)

    def handle_error(self, *_: Any) -> None:
        """Say nothing of a peer that hung up."""


class _Answer(BaseHTTPRequestHandler):
    timeout = 5
    server_version = "contextful"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer a request."""
        if self.path.partition("?")[0] == "/healthz":
            self._answer(200, b"ok\n")
        else:
            self._answer(404, b"not found\n")

    def send_error(self, *_: Any) -> None:
        """Answer whatever else there is, other methods and broken requests too."""
        self._answer(404, b"not found\n")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
