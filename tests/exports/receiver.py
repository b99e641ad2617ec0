"""A destination that honours keys: a real server that acts once a key, and says what it has acted on."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tests.answering import Answering, listening

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


class _Handler(Answering):
    receiver: Receiver

    def reply(self) -> None:
        named = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, named, json.loads(self.read()))
        manner = self.receiver.met(request)
        if not isinstance(manner, int):
            self.connection.close()
        elif manner < 300:
            answer = self.receiver.answer(request.headers.get("idempotency-key", ""))
            self.answer(manner, answer, self.receiver.headers)
        else:
            self.answer(manner, self.receiver.refusal, self.receiver.headers)


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver on a port of its own."""
    receiver = Receiver()
    with listening(_Handler, receiver=receiver) as receiver.url:
        yield receiver
