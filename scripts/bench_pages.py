"""The pages that `bench_landing.py` lands, from a server in a process of its own.

The server answers from memory with as little work as it can: whoever asks waits for it, and its own speed is not what
is measured.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import socketserver
from datetime import datetime, timedelta
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
    kept = min(pages, 200)
    bodies = [page(number, kept) for number in range(kept)]
    newest = json.dumps({"items": [row(kept * ROWS - 1)], "next": None}).encode()

    def body(number: int) -> bytes:
        if pages <= kept:
            return bodies[number]
        # A longer walk serves the same rows again behind other links.
        following = f"/orders?page={number + 1}" if number + 1 < pages else None
        rows, _, _ = bodies[number % kept].rpartition(b', "next": ')
        return rows + b', "next": ' + json.dumps(following).encode() + b"}"

    class Handler(socketserver.StreamRequestHandler):
        disable_nagle_algorithm = True

        def handle(self) -> None:
            while request := self.rfile.readline():
                while self.rfile.readline().strip():
                    pass  # a header: none matters here
                asked = dict(part.split("=", 1) for part in request.split()[1].decode().partition("?")[2].split("&"))
                content = newest if "since" in asked else body(int(asked["page"]))
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
                self.wfile.write(head.encode() + content)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        ready.send(server.server_address[1])
        server.serve_forever()
