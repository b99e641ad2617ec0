"""A destination that honours keys: a real server that acts once a key, and says what it has acted on."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Manner = int | Literal["lost", "vanished"]
"""How a request is met: by a status, its work done and the answer lost, or the connection gone before anything."""


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def key(self) -> str:
        return self.headers["idempotency-key"]


@dataclass
class Receiver:
    """What the server has seen; `manners` are those of the next requests, 200 once they are used up."""

    url: str = ""
    manners: list[Manner] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    acted: dict[str, dict[str, Any]] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    answer: Callable[[str], bytes] = lambda key: json.dumps({"id": f"rec-{key[:6]}"}).encode()
    refusal: bytes = b"no"
    on_request: Callable[[Request], None] = lambda _: None
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def keys(self) -> list[str]:
        return [request.key for request in self.requests]

    @property
    def batches(self) -> list[int]:
        """The numbers of the batches that came, in order."""
        return [request.body["batch"] for request in self.requests]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows acted on, in the order of their first arrival."""
        return [row for body in self.acted.values() for row in body["rows"]]

    @property
    def ids(self) -> list[Any]:
        return [row["id"] for row in self.rows]

    def met(self, request: Request) -> Manner:
        """Act on a request whose key is new, unless the manner of its turn forbids it."""
        with self._turn:
            manner = self.manners.pop(0) if self.manners else 200
            self.requests.append(request)
            if manner == "lost" or (isinstance(manner, int) and manner < 300):
                self.acted.setdefault(request.key, request.body)
        self.on_request(request)
        return manner


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver on a port of its own."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            named = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.path, named, body)
            manner = receiver.met(request)
            if not isinstance(manner, int):
                self.connection.close()
                return
            content = receiver.answer(request.headers.get("idempotency-key", "")) if manner < 300 else receiver.refusal
            self.send_response(manner)
            for name, value in receiver.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing is told."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that is gone is none."""

    with Server(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
