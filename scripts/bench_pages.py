"""The pages that `bench_landing.py` lands, from a server in a process of its own."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ROWS = 1000
BEGINNING = datetime(2020, 1, 1)
WORDS = ("amber", "basalt", "cobalt", "dune", "ember", "fjord", "garnet", "heath")


@contextlib.contextmanager
def serving(pages: int) -> Any:
    """The server in a process of its own; gives its address."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(pages, theirs), daemon=True)
    server.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        server.terminate()
        server.join()


def page(number: int, pages: int) -> bytes:
    """One page: 1,000 rows of eight columns, about 256 KB of JSON."""
    rows = [row(number * ROWS + index) for index in range(ROWS)]
    following = f"/orders?page={number + 1}" if number + 1 < pages else None
    return json.dumps({"items": rows, "next": following}).encode()


def row(index: int) -> dict[str, Any]:
    """Row `index`; every column is a function of it."""
    return {
        "id": index,
        "customer": f"customer-{index * 7919 % 10007:05}",
        "status": WORDS[index % 8],
        "amount": round(index * 1.37 % 1000, 2),
        "quantity": index % 17,
        "note": " ".join(WORDS[(index >> shift) % 8] for shift in range(0, 30, 3)),
        "paid": index % 3 == 0,
        "updated_at": (BEGINNING + timedelta(minutes=index)).isoformat() + "Z",
    }


def serve(pages: int, ready: Any) -> None:
    """Serve the pages until killed; a request with `since` is a poll with nothing new: the last row again."""
    bodies = [page(number, min(pages, 200)) for number in range(min(pages, 200))]
    newest = json.dumps({"items": [row(min(pages, 200) * ROWS - 1)], "next": None}).encode()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            query = self.path.partition("?")[2]
            asked = dict(part.split("=", 1) for part in query.split("&"))
            number = int(asked.get("page", 0))
            body = newest if "since" in asked else self.body(number)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def body(self, number: int) -> bytes:
            if pages <= len(bodies):
                return bodies[number]
            # A longer walk serves the same rows again behind other links.
            following = f"/orders?page={number + 1}" if number + 1 < pages else None
            rows, _, _ = bodies[number % len(bodies)].rpartition(b', "next": ')
            return rows + b', "next": ' + json.dumps(following).encode() + b"}"

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    ready.send(server.server_address[1])
    server.serve_forever()
