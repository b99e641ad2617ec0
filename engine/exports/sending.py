"""One request of an export: a POST that its destination answers with a receipt, or what its answer means instead."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from engine.errors import AuthExpired
from engine.execution.cover import MARGIN_MS
from engine.execution.values import encode
from engine.pipeline.sources.answers import failure
from engine.pipeline.sources.placeholders import filled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import httpx

    from engine.execution.call import Call
    from engine.pipeline.declaration import Destination
    from engine.secrets import SecretGuard

READ_BYTES: Final = 64 << 10
"""Bytes of an answer that are read: it says whether and under which id, and nothing more is wanted of it."""

RECEIPT_HEADERS: Final = ("X-Receipt-Id", "Receipt-Id", "X-Request-Id")
"""Headers by which a destination may name its receipt, where the body's `id` does not."""

LONGEST_RECEIPT: Final = 200

SHARE: Final = 8
"""What part of a window one of the four phases of a request may take: all of them fit into half of it."""


@dataclass(frozen=True, slots=True)
class Sending:
    """How batches reach `destination`; `url` and `headers` hold the secrets and are recorded nowhere."""

    destination: Destination
    url: str
    headers: Mapping[str, str]
    guard: SecretGuard
    now: Callable[[], int]

    @classmethod
    def to(
        cls, destination: Destination, secrets: Mapping[str, str], *, guard: SecretGuard, now: Callable[[], int]
    ) -> Sending:
        """The way to `destination`. Raise `SecretNotFound` naming a secret that is not set."""
        place = f'destination "{destination.name}": '
        url = filled(destination.url, secrets, path=f"{place}url")
        headers = filled(destination.headers, secrets, path=f"{place}headers")
        return cls(destination, url, {"Content-Type": "application/json", **headers}, guard, now)

    def effect(self, body: bytes, *, digest: str) -> Callable[[Call], bytes]:
        """The effect that sends `body` and returns what is recorded of its delivery: status, receipt and digest."""

        def send(call: Call) -> bytes:
            with call.http.stream(
                "POST", self.url, content=body, headers=dict(self.headers), timeout=self._phase_s
            ) as response:
                answer = _beginning(response)
                if not response.is_success:
                    raise self._failure(response, answer)
                receipt = self._receipt(response, answer)
            return encode({"status": response.status_code, "receipt": receipt, "sha256": digest}, step=call.key.step)

        return send

    @property
    def _phase_s(self) -> float:
        """Seconds of one phase of a request: as declared, and short enough that all fit into the window (rule G3)."""
        declared, window = self.destination.timeout_ms, self.destination.dedup_window_ms
        if window is None:
            return declared / 1000
        return min(declared, max(window - MARGIN_MS, SHARE) / SHARE) / 1000

    def _failure(self, response: httpx.Response, answer: bytes) -> Exception:
        text, _ = self.guard.text(answer.decode("utf-8", "replace"))
        place = f"the destination {self.destination.name}"
        wait = response.headers.get("Retry-After")
        found = failure(response.status_code, place, text=text, retry_after=wait, now=self.now())
        if isinstance(found, AuthExpired):
            found.remedy = "check the destination's credentials: the secrets that its url and headers name"
        return found

    def _receipt(self, response: httpx.Response, answer: bytes) -> str | None:
        """What the destination calls this delivery, where it says so."""
        named = (response.headers.get(name) for name in RECEIPT_HEADERS)
        found = _id(answer) or next(filter(None, named), None)
        return None if found is None else self.guard.text(found)[0][:LONGEST_RECEIPT]


def _beginning(response: httpx.Response) -> bytes:
    """The first bytes of an answer. The status has told all that counts, so that a broken body breaks nothing."""
    import httpx  # noqa: PLC0415 - here it is loaded already

    read = b""
    with suppress(httpx.HTTPError):
        for chunk in response.iter_bytes():
            read += chunk
            if len(read) >= READ_BYTES:
                break
    return read[:READ_BYTES]


def _id(answer: bytes) -> str | None:
    with suppress(ValueError):
        document: Any = json.loads(answer)
        if isinstance(document, dict) and isinstance(document.get("id"), str | int):
            return str(document["id"])
    return None
