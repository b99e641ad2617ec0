"""The frame of the small servers that tests ask: a handler that answers in one go, on a loopback port of its own."""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Answering(BaseHTTPRequestHandler):
    """Answers GET and POST alike, and tells nobody."""

    def reply(self) -> None:
        """Answer the request that has come."""
        raise NotImplementedError

    def do_GET(self) -> None:
        self.reply()

    do_POST = do_GET  # noqa: N815 - the name the server looks for

    def answer(self, status: int, content: Any, headers: Mapping[str, str] | None = None) -> None:
        """Answer with `content`, bytes as they are and anything else as JSON."""
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def read(self) -> bytes:
        """The request's body."""
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def hang_up(self) -> None:
        """Reset the connection, so that the other side notices at once."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def listening(handler: type[Answering], **told: Any) -> Iterator[str]:
    """Serve by `handler`, of which each finds what is `told` as its attributes, until the block ends; the address."""
    with _Server(("127.0.0.1", 0), type(handler.__name__, (handler,), told)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, *asked: Any) -> None:
        """Say nothing of a client that is gone, as those that are killed are."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(*asked)
