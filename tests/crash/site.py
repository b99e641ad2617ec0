"""A local HTTP server that serves laid out pages and counts who asked for what."""

from __future__ import annotations

import json
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Rows = list[dict[str, Any]]


@dataclass
class Shelf:
    """One project's pages, and how often each was asked. `stamped` rows carry which asking they are of."""

    url: str
    pages: list[Rows]
    stamped: bool = False
    asked: Counter[int] = field(default_factory=Counter)
    posted: list[dict[str, Any]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def page(self, number: int, since: str) -> dict[str, Any]:
        """Page `number` of the rows at or after `since`, and the link to the next."""
        with self._lock:
            self.asked[number] += 1
            stamp = {"asking": self.asked[number]} if self.stamped else {}
        rows = [row | stamp for row in self.pages[number] if row["updated"] >= since]
        more = number + 1 < len(self.pages)
        return {"items": rows, "next": f"{self.url}?page={number + 1}&since={since}" if more else None}

    def post(self, body: dict[str, Any]) -> dict[str, Any]:
        """Count one effect and answer which of its step's it was."""
        with self._lock:
            self.posted.append(body)
            return {"step": body["step"], "number": sum(one["step"] == body["step"] for one in self.posted)}


class Site:
    """The server; each project has a shelf of its own."""

    def __init__(self) -> None:
        self._shelves: dict[str, Shelf] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def shelf(self, name: str, pages: list[Rows], *, stamped: bool = False) -> Shelf:
        """Lay out `pages` under `name`."""
        host, port = self._server.server_address[:2]
        shelf = Shelf(f"http://{host!s}:{port}/{name}", pages, stamped)
        self._shelves[name] = shelf
        return shelf

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        shelves = self._shelves

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                target = urlsplit(self.path)
                asked = parse_qs(target.query)
                shelf = shelves[target.path.strip("/")]
                self._answer(shelf.page(int(asked.get("page", ["0"])[0]), asked.get("since", [""])[0]))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                self._answer(shelves[self.path.strip("/")].post(body))

            def handle(self) -> None:
                with suppress(ConnectionError):  # the reader was killed
                    super().handle()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name it has
                """Nothing."""

            def _answer(self, body: Any) -> None:
                content = json.dumps(body).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        return Handler
