"""A proxy between engine and binding that breaks one request, or more, exactly as a network or D1 may break it."""

from __future__ import annotations

import hashlib
import http.client
import json
import socket
import struct
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from engine.demo.loopback import Served, Server

if TYPE_CHECKING:
    from collections.abc import Iterator

ERRORS: Final = (
    "D1 DB reset because its code was updated.",
    "Internal error while starting up D1 DB storage caused object to be reset.",
    "Network connection lost.",
    "Internal error in D1 DB storage caused object to be reset.",
    "Cannot resolve D1 DB due to transient issue on remote node.",
    "Can't read from request stream because client disconnected.",
    "D1 DB storage operation exceeded timeout which caused object to be reset.",
    "D1 DB is overloaded. Requests queued for too long.",
    "D1 DB is overloaded. Too many requests queued.",
    "D1 DB's isolate exceeded its memory limit and was reset.",
    "D1 DB exceeded its CPU time limit and was reset.",
)
"""What D1 documents that it says when a request fails for no fault of the statement."""

_HOP: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host"})


class How(StrEnum):
    """What happens to a request."""

    DROPPED_BEFORE = "dropped before"
    DROPPED_AFTER = "dropped after"
    STALLED = "stalled"
    CUT = "cut"
    ERROR_BEFORE = "error before"
    ERROR_AFTER = "error after"
    DEAD = "dead"
    SILENT = "silent"


_OUTAGES: Final = frozenset({How.DEAD, How.SILENT})


@dataclass(frozen=True, slots=True)
class Fault:
    """`how` request `at` fails, counted from 0 since the proxy was armed, and how many `times` it and its followers do.

    A stall lasts `seconds` and reaches the binding after it, when nobody waits any more. So long a dead binding hangs
    up on every request, whichever it is, and a silent one lets it wait and has never heard of it. An error carries
    `text`.
    """

    how: How
    at: int
    seconds: float = 0
    text: str = ERRORS[0]
    times: int = 1


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came to the proxy."""

    method: str
    path: str
    intent: str
    digest: str
    faulty: bool

    @property
    def writes(self) -> bool:
        """Whether sending it twice could apply it twice."""
        return self.intent == "write" or self.method == "DELETE"

    @property
    def kind(self) -> str:
        """What it is, apart from what it is about."""
        return f"{self.method} {self.intent or self.path.split('?')[0].split('/')[2]}"


class FaultProxy(Served):
    """A reverse proxy on a loopback port, from `with` to its end; each request takes `latency_s` on its way."""

    def __init__(self, target: str, *, latency_s: float = 0) -> None:
        super().__init__(_Server, _Handler)
        parts = urlsplit(target)
        self.target = (str(parts.hostname), int(parts.port or 80))
        self.most_at_once = 0
        self._at_once = 0
        self._latency_s = latency_s
        self._fault: Fault | None = None
        self._out_until = 0.0
        self._turn = threading.Lock()
        self._came: list[Request] = []

    def arm(self, fault: Fault | None) -> None:
        """Forget what came and let `fault` happen; None lets everything through."""
        with self._turn:
            self._fault, self._out_until, self._came = fault, 0.0, []

    def came(self) -> list[Request]:
        """Every request since the proxy was armed, in the order of arrival."""
        with self._turn:
            return list(self._came)

    def resent(self) -> list[Request]:
        """The writes that were broken and came again."""
        came = self.came()
        broken = [each for each in came if each.faulty and each.writes]
        return [each for each in broken if sum(each.digest == other.digest for other in came) > 1]

    def meets(self, method: str, path: str, body: bytes) -> Fault | None:
        """Note a request and return what is to happen to it."""
        with self._turn:
            fault, number = self._fault, len(self._came)
            if fault and fault.how in _OUTAGES and number == fault.at:
                self._out_until = time.monotonic() + fault.seconds
            out = time.monotonic() < self._out_until
            broken = fault if fault and (out or fault.at <= number < fault.at + fault.times) else None
            digest = hashlib.sha256(f"{method} {path} ".encode() + body).hexdigest()
            self._came.append(Request(method, path, _intent(path, body), digest, broken is not None))
            return broken

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Count a request as one of those under way, for as long as it takes."""
        with self._turn:
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            self.stall(self._latency_s)
            yield
        finally:
            with self._turn:
                self._at_once -= 1

    def stall(self, seconds: float) -> None:
        """Wait; the proxy's end cuts it short."""
        self._closing.wait(seconds)

    def outlast(self) -> None:
        """Wait until the outage under way is over."""
        self._closing.wait(max(0, self._out_until - time.monotonic()))


class _Server(Server[FaultProxy]):
    def __init__(self, served: FaultProxy, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(served, handler)
        self._open: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection, and remember it: one that its client keeps for later would be waited for."""
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """A connection is over."""
        self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """End the connections that still stand, and with them who serves them."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        super().server_close()


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 60

    def handle_one_request(self) -> None:
        """Serve the next request of the connection, whatever its method."""
        self.raw_requestline = self.rfile.readline(65_537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        with self.server.served.under_way():
            self._serve(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the method it overrides
        """Log nothing: `FaultProxy.came` holds every request."""

    def _serve(self, body: bytes) -> None:
        fault = self.server.served.meets(self.command, self.path, body)
        match fault.how if fault else None:
            case None:
                self._answer(*self._forwarded(body))
            case How.DROPPED_BEFORE | How.DEAD:
                self._hang_up()
            case How.SILENT:
                self.server.served.outlast()
                self._hang_up()
            case How.DROPPED_AFTER:
                self._forwarded(body)
                self._hang_up()
            case How.STALLED:
                assert fault
                self.server.served.stall(fault.seconds)
                with suppress(OSError):
                    self._answer(*self._forwarded(body))
                self._hang_up()
            case How.CUT:
                self._answer(*self._forwarded(body), share=0.5)
                self._hang_up()
            case How.ERROR_BEFORE | How.ERROR_AFTER:
                assert fault
                if fault.how is How.ERROR_AFTER:
                    self._forwarded(body)
                said = json.dumps({"error": "unavailable", "text": fault.text}).encode()
                self._answer(503, {"content-type": "application/json"}, said)

    def _forwarded(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(*self.server.served.target, timeout=60)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
            if self.command in {"POST", "PUT"}:
                headers["content-length"] = str(len(body))
            connection.request(self.command, self.path, body=body or None, headers=headers)
            answer = connection.getresponse()
            content = answer.read()
            kept = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP}
            return answer.status, kept, content
        finally:
            connection.close()

    def _answer(self, status: int, headers: dict[str, str], content: bytes, *, share: float = 1) -> None:
        self.send_response_only(status)
        # An answer without content still is to be cut: its head says more than it holds.
        length = len(content) if share == 1 else max(len(content), 1)
        for name, value in {**headers, "content-length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: int(len(content) * share)])

    def _hang_up(self) -> None:
        """Reset the connection, so that the other side notices at once."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RDWR)


def _intent(path: str, body: bytes) -> str:
    """What a batch says that it is; nothing for any other request."""
    return str(json.loads(body)["intent"]) if path == "/v1/batch" else ""
