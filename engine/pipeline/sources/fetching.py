"""One request and its answer: redirects followed by hand, credentials kept at home, bounds on size and time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import httpx

from engine.errors import (
    ConnectorBoundHit,
    ContextfulError,
    Permanent,
    SourceLoop,
    SourceOriginRefused,
    SourceShape,
    Transient,
)
from engine.pipeline.sources.inflating import inflated
from engine.pipeline.sources.links import absolute, origin
from engine.pipeline.sources.placeholders import masked, sample

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.clock import Clock

LARGEST_ANSWER: Final = 256 << 20
"""Bytes of the largest body read, after decompression: the bound `linear-memory`."""

MOST_REDIRECTS: Final = 10
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Request:
    """What to send. `place` names it in errors and holds no secret."""

    place: str
    method: str
    url: str
    headers: dict[str, str]
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, wherever the redirects led; the body decompressed."""

    status: int
    url: str
    headers: httpx.Headers
    content: bytes

    @property
    def ends_anywhere(self) -> bool:
        """Whether nothing said where the body ends, so that one cut off looks like a whole one."""
        return not {"content-length", "transfer-encoding"} & set(self.headers)


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Sends the requests of one walk. `home` is the origin that credentials may go to; None: there are none.

    It tries nothing twice (run.retry.one-layer).
    """

    client: httpx.Client
    home: str | None
    secrets: Mapping[str, str]
    timeout_ms: int
    clock: Clock

    def fetch(self, request: Request) -> Answer:
        """The answer to `request`, up to ten redirects on.

        Raise `SourceOriginRefused` when it would leave home, `SourceLoop` when redirects go round, `Transient` when
        the connection broke, `ConnectorBoundHit` when the body is too large or came too slowly.
        """
        asked: set[tuple[str, str]] = set()
        while len(asked) <= MOST_REDIRECTS:
            self._refuse_other_origin(request)
            asked.add((request.method, request.url))
            answer = self._sent(request)
            location = answer.headers.get("location")
            if answer.status not in _REDIRECTS or not location:
                return answer
            request = self._redirected(request, answer.status, location)
            if (request.method, request.url) in asked:
                raise SourceLoop(place=request.place, position=masked(request.url, self.secrets))
        raise Permanent(f"{request.place} redirects more than {MOST_REDIRECTS} times")

    def _refuse_other_origin(self, request: Request) -> None:
        target = origin(request.url)
        if self.home is not None and target != self.home:
            raise SourceOriginRefused(place=request.place, origin=masked(self.home, self.secrets),
                                      target=masked(target, self.secrets))  # fmt: skip

    def _redirected(self, request: Request, status: int, location: str) -> Request:
        try:
            target = absolute(request.url, location)
        except ValueError:
            found = f"the text {sample(masked(location, self.secrets))!r}"
            raise SourceShape(place=request.place, path="Location", found=found, expected="an http URL") from None
        if status in {307, 308} or request.method == "GET":
            return replace(request, url=target)
        return replace(request, url=target, method="GET", content=None)

    def _sent(self, request: Request) -> Answer:
        try:
            with self.client.stream(request.method, request.url, headers=request.headers, content=request.content,
                                    timeout=self.timeout_ms / 1000, follow_redirects=False) as response:  # fmt: skip
                return Answer(response.status_code, request.url, response.headers, self._read(response, request.place))
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise self._failure(error, request.place) from None

    def _read(self, response: httpx.Response, place: str) -> bytes:
        deadline = self.clock.now() + self.timeout_ms
        content = bytearray()
        for chunk in inflated(response):
            content += chunk
            if len(content) > LARGEST_ANSWER:
                raise ConnectorBoundHit(place=place, bound="linear-memory", limit=f"{LARGEST_ANSWER >> 20} MiB a page")
            if self.clock.now() > deadline:
                raise self._too_slow(place)
        return bytes(content)

    def _failure(self, error: Exception, place: str) -> ContextfulError:
        # A client's own words may quote a header or a URL, so no such text, and no such cause, leaves unmasked.
        if isinstance(error, httpx.TimeoutException):
            return self._too_slow(place)
        if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol | httpx.InvalidURL | UnicodeError):
            return Permanent(f"{place} cannot be sent: its URL or a header holds what HTTP does not allow")
        return Transient(f"{place} broke off: {sample(masked(str(error) or type(error).__name__, self.secrets))}")

    def _too_slow(self, place: str) -> ConnectorBoundHit:
        return ConnectorBoundHit(place=place, bound="call-deadline", limit=f"{self.timeout_ms / 1000:g} s a read")
