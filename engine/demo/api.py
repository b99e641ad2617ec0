"""A local HTTP API over the shipped earthquakes, with the manners of a real one: pages, a throttle, a slow page.

`GET /quakes?updated_after=T&cursor=C` answers `{"items": […], "next": "/quakes?…" or null}`: the events updated at or
after `T`, oldest first, fifty a page, behind the event that the cursor names. Everything asked is written down.
"""

from __future__ import annotations

import gzip
import json
import socket
import threading
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

from engine.demo.loopback import Served, Server

PAGE: Final = 50
"""Rows a page."""

Quake = dict[str, Any]
Key = tuple[str, str]


@cache
def quakes() -> tuple[Quake, ...]:
    """The shipped events, sorted by `updated` and `id`."""
    packed = files("engine.demo").joinpath("quakes.jsonl.gz").read_bytes()
    return tuple(json.loads(line) for line in gzip.decompress(packed).splitlines())


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came, and the answer: its status and how many rows it held."""

    target: str
    status: int
    rows: int


@dataclass(frozen=True, slots=True)
class Manners:
    """When the API is difficult: it counts requests from 1 on, over its whole life.

    Request `throttle_at` is answered 429 once, with `Retry-After: 1`; `slow_at` is answered half a page, then nothing
    for `slow_s` seconds, then the rest. 0 means never.
    """

    throttle_at: int = 8
    slow_at: int = 18
    slow_s: float = 1.5


class DemoApi(Served):
    """The API at work on a port of its own, from `with` to its end.

    `slow_page` is set while half a page has been sent and the rest is held back: a good moment to kill the reader.
    """

    def __init__(self, *, manners: Manners | None = None) -> None:
        super().__init__(Server, _Handler)
        self.slow_page = threading.Event()
        self._manners = manners or Manners()
        self._turn = threading.Lock()
        self._came = 0
        self._asked: list[Asked] = []

    def asked(self) -> tuple[Asked, ...]:
        """Every request so far, in the order they were answered; one cut off half way counts no rows."""
        with self._turn:
            return tuple(self._asked)

    def requests(self) -> Counter[str]:
        """How often each path with its query was asked."""
        return Counter(one.target for one in self.asked())

    def served(self) -> int:
        """Rows sent in whole pages."""
        return sum(one.rows for one in self.asked())

    def number(self) -> int:
        """Which request this is, from 1 on."""
        with self._turn:
            self._came += 1
            return self._came

    def note(self, asked: Asked) -> None:
        """Write a request down."""
        with self._turn:
            self._asked.append(asked)

    def throttles(self, number: int) -> bool:
        """Whether request `number` is told to wait."""
        return number == self._manners.throttle_at

    def pause(self, number: int) -> None:
        """Hold request `number` back if it is the slow one; the API's end cuts the wait short."""
        if number == self._manners.slow_at:
            self.slow_page.set()
            self._closing.wait(self._manners.slow_s)
            self.slow_page.clear()


class _Handler(BaseHTTPRequestHandler):
    server: Server[DemoApi]

    def do_GET(self) -> None:
        """Answer one request and write it down, also when the reader is gone before the end of it."""
        api, number = self.server.served, self.server.served.number()
        status, body, headers = _answer(self.path, throttled=api.throttles(number))
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        half = len(content) // 2
        reader_stays = self._begun(status, headers, len(content), content[:half])
        if reader_stays:
            api.pause(number)
            reader_stays = not self._reader_left()
        # Before the last bytes: whoever has them finds the request written down.
        api.note(Asked(self.path, status, len(body.get("items", ())) if reader_stays else 0))
        if reader_stays:
            self.wfile.write(content[half:])

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the method it overrides
        """Log nothing: `DemoApi.asked` holds every request."""

    def _reader_left(self) -> bool:
        """Whether the connection was closed from the other side, which a write alone would not notice."""
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _begun(self, status: HTTPStatus, headers: dict[str, str], length: int, content: bytes) -> bool:
        """Send the head and the first bytes; tell whether the reader was still there."""
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(length), **headers}.items():
            self.send_header(name, value)
        try:
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            return False
        return True


def _answer(target: str, *, throttled: bool) -> tuple[HTTPStatus, dict[str, Any], dict[str, str]]:
    parts = urlsplit(target)
    if parts.path != "/quakes":
        return HTTPStatus.NOT_FOUND, {"error": f"no such path: {parts.path}; try /quakes"}, {}
    if throttled:
        return HTTPStatus.TOO_MANY_REQUESTS, {"error": "too many requests"}, {"Retry-After": "1"}
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    since, cursor = query.get("updated_after"), query.get("cursor")
    if cursor is not None and "~" not in cursor:
        return HTTPStatus.BAD_REQUEST, {"error": f"no cursor of ours: {cursor}"}, {}
    return HTTPStatus.OK, _page(since, cursor), {}


def _page(since: str | None, cursor: str | None) -> dict[str, Any]:
    """The page behind `cursor`, of the events at or after `since`."""
    events = quakes()
    first = bisect_left(events, since, key=lambda quake: str(quake["updated"])) if since else 0
    if cursor:
        updated, _, name = cursor.partition("~")
        first = max(first, bisect_right(events, (updated, name), key=_key))
    items = events[first : first + PAGE]
    if first + PAGE >= len(events):
        return {"items": items, "next": None}
    asked = {"updated_after": since} if since else {}
    return {"items": items, "next": f"/quakes?{urlencode({**asked, 'cursor': '~'.join(_key(items[-1]))})}"}


def _key(quake: Quake) -> Key:
    return quake["updated"], quake["id"]
