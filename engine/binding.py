"""Requests to the Worker's private binding: what is sent again, what never is (run.journal.d1-transport).

ask    ──no answer──▶ again over a fresh connection, 3 attempts in all ──▶ StorageBindingUnavailable: nothing applied
insist ──no answer──▶ again, likewise ──▶ StorageBindingUnavailable: any of them may have been applied
tell   ──no answer──▶ StorageBindingUnavailable: it may have been applied
all    ──an answer, be it an error──▶ that is the answer

One that cannot be read, cut short or garbled on its way, is no answer.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

import httpx

from engine.deadline import BoundedTransport, deadline
from engine.errors import StorageBindingUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

ATTEMPTS: Final = 3
"""How often a request is sent that may be sent again."""

READ_S: Final = "CONTEXTFUL_BINDING_READ_TIMEOUT"
WRITE_S: Final = "CONTEXTFUL_BINDING_WRITE_TIMEOUT"

ADDRESS: Final = "see that CONTEXTFUL_BINDING_URL names the Worker's private binding and that it is up, then run again"
"""What to do where nobody answers at the address, or somebody else does."""

_NO_ANSWER: Final = (httpx.RequestError, httpx.StreamError)
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout)


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: an attempt that may be repeated takes at most `read_s`, one that may not `write_s`.

    `pause_s` lies before the second attempt, and twice that before the third.
    """

    read_s: float = 15
    write_s: float = 45
    pause_s: float = 0.25

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Patience:
        """What the settings say, where they say it; whoever opens a profile has looked at them."""
        usual = cls()
        return cls(float(environ.get(READ_S, usual.read_s)), float(environ.get(WRITE_S, usual.write_s)))


class Exchange:
    """HTTP with the binding at `url`. Nothing of the environment diverts it: no proxy, no credential file."""

    def __init__(self, url: str, *, patience: Patience | None = None) -> None:
        self.url = url.rstrip("/")
        self._patience = patience or Patience()
        self._kept = _client(kept=8)
        self._fresh = _client(kept=0)

    def ask(
        self, method: str, path: str, *, content: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Send what only reads until an answer comes, be it an error.

        Raise `StorageBindingUnavailable`, its `applied` "no", when every attempt stayed without one.
        """
        try:
            return self._repeated(method, path, content, headers)
        except _Unanswered as lost:
            raise self._unavailable(lost.last, applied="no") from lost.last

    def insist(
        self, method: str, path: str, *, content: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Send what changes something and is harmless to repeat, until an answer comes, be it an error.

        Raise `StorageBindingUnavailable`, its `applied` "unknown" unless no attempt was sent.
        """
        try:
            return self._repeated(method, path, content, headers)
        except _Unanswered as lost:
            applied: Literal["no", "unknown"] = "unknown" if lost.sent else "no"
            raise self._unavailable(lost.last, applied=applied) from lost.last

    def tell(
        self, method: str, path: str, *, content: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """Send once, over a connection of its own: one that was kept may be dead without anyone having noticed.

        Raise `StorageBindingUnavailable`, its `applied` "unknown" unless nothing was sent.
        """
        try:
            return self._send(self._fresh, method, path, content, headers, seconds=self._patience.write_s)
        except _NO_ANSWER as lost:
            raise self._unavailable(lost, applied="no" if isinstance(lost, _NOT_SENT) else "unknown") from lost

    def close(self) -> None:
        """Close the connections."""
        self._kept.close()
        self._fresh.close()

    def _repeated(
        self, method: str, path: str, content: bytes | None, headers: Mapping[str, str] | None
    ) -> httpx.Response:
        """Raise `_Unanswered` after the last attempt."""
        lost: list[Exception] = []
        for client in (self._kept, *[self._fresh] * (ATTEMPTS - 1)):
            if lost:
                time.sleep(self._patience.pause_s * 2 ** (len(lost) - 1))
            try:
                return self._send(client, method, path, content, headers, seconds=self._patience.read_s)
            except _NO_ANSWER as failure:
                lost.append(failure)
        raise _Unanswered(lost)

    def _send(
        self, client: httpx.Client, method: str, path: str, content: bytes | None,
        headers: Mapping[str, str] | None, *, seconds: float,
    ) -> httpx.Response:  # fmt: skip
        with deadline(seconds):
            return client.request(method, self.url + path, headers=dict(headers or {}), content=content)

    def _unavailable(self, lost: Exception, *, applied: Literal["no", "unknown"]) -> StorageBindingUnavailable:
        reason = f"{type(lost).__name__} {lost}".strip()
        refusal = StorageBindingUnavailable(place=self.url, reason=reason, applied=applied)
        return refusal.advising(ADDRESS) if isinstance(lost, _NOT_SENT) else refusal


class _Unanswered(Exception):
    """What each attempt at a request met instead of an answer."""

    def __init__(self, lost: list[Exception]) -> None:
        super().__init__(*lost)
        self.last = lost[-1]
        self.sent = not all(isinstance(each, _NOT_SENT) for each in lost)


def is_address(url: str) -> bool:
    """Whether `url` names a host by HTTP, and a port that there may be."""
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def document(answer: httpx.Response) -> dict[str, Any]:
    """The JSON object that `answer` is; an empty one where it is something else, which the binding never says."""
    try:
        said = answer.json()
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _client(*, kept: int) -> httpx.Client:
    return httpx.Client(
        transport=BoundedTransport(kept=kept),
        headers={"accept-encoding": "identity"},
        trust_env=False,
        timeout=None,  # noqa: S113 - see deadline
    )
