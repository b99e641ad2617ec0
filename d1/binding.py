"""Batches over the Worker's private binding, and what its answers mean."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from d1.wire import PROTOCOL, Result, result
from engine.binding import ADDRESS, document
from engine.errors import Refused, StorageBindingUnavailable, StorageProtocolMismatch, StorageUnusable

if TYPE_CHECKING:
    import httpx

    from engine.binding import Exchange
    from engine.ports import Rows

Intent = Literal["read", "write", "initialize"]


@dataclass(slots=True)
class Spent:
    """What was asked of D1 so far: what a bill is made of."""

    round_trips: int = 0
    statements: int = 0
    rows_read: int = 0
    rows_written: int = 0


class Binding:
    """Protocol 1 over `exchange`. What may be sent again is; a write goes once (run.journal.d1-transport)."""

    def __init__(self, exchange: Exchange) -> None:
        self.spent = Spent()
        self._exchange = exchange
        self._turn = threading.Lock()

    def batch(self, statements: list[dict[str, Any]], *, intent: Intent) -> list[Rows]:
        """Run `statements` as one transaction and return the rows of each.

        Raise `Refused` naming the constraint a statement met, `StorageUnusable` for any other refusal,
        `StorageBindingUnavailable` where nobody answered for D1, or somebody else than the binding did,
        `StorageProtocolMismatch`.
        """
        body = json.dumps({"protocol": PROTOCOL, "intent": intent, "statements": statements}, allow_nan=False)
        send = {"read": self._exchange.ask, "initialize": self._exchange.insist, "write": self._exchange.tell}[intent]
        answer = send("POST", "/v1/batch", content=body.encode(), headers={"content-type": "application/json"})
        writes = intent != "read"
        results = _results(self._said(answer, "results", writes=writes)["results"], of=len(statements))
        if results is None:
            raise self._foreign(answer, writes=writes)
        self._count(results)
        return [each.rows for each in results]

    def health(self) -> dict[str, Any]:
        """What the Worker says of itself. Raise `StorageBindingUnavailable`, `StorageProtocolMismatch`."""
        return self._said(self._exchange.ask("GET", "/v1/health"), "protocol", writes=False)

    def close(self) -> None:
        """Close the connections."""
        self._exchange.close()

    def _said(self, answer: httpx.Response, part: str, *, writes: bool) -> dict[str, Any]:
        """The document of an answer, which has `part`; an error is raised as what it says and never asked about again.

        Only the binding's own words tell that nothing was applied. Whoever else answers, on the way to it or in its
        stead, may have passed the request on before.
        """
        said = document(answer)
        if answer.status_code == 200 and part in said:
            return said
        place = self._exchange.url
        match answer.status_code, said:
            case 409, {"constraint": str(), "text": str(text)}:
                raise Refused(constraint=text)
            case 426, {"speaks": int(speaks)}:
                raise StorageProtocolMismatch(place=place, speaks=speaks, asked=PROTOCOL)
            case 404, {"error": "unknown", "text": str(text)}:
                # A Worker that is asked for something else: what is spoken to is not what was meant.
                raise StorageUnusable(place=place, reason=text).advising(ADDRESS)
            case status, {"error": str(kind), "text": str(text)} if _refuses(status, kind):
                raise StorageUnusable(place=place, reason=text)
            case 503, {"error": "unavailable"}:
                raise self._lost(str(said.get("text")), writes=writes)
        raise self._foreign(answer, writes=writes)

    def _foreign(self, answer: httpx.Response, *, writes: bool) -> StorageBindingUnavailable:
        reason = f"it answered HTTP {answer.status_code}, which is none of the binding's answers"
        return self._lost(reason, writes=writes).advising(ADDRESS)

    def _lost(self, reason: str, *, writes: bool) -> StorageBindingUnavailable:
        applied: Literal["no", "unknown"] = "unknown" if writes else "no"
        return StorageBindingUnavailable(place=self._exchange.url, reason=reason, applied=applied)

    def _count(self, results: list[Result]) -> None:
        with self._turn:
            self.spent.round_trips += 1
            self.spent.statements += len(results)
            self.spent.rows_read += sum(each.rows_read for each in results)
            self.spent.rows_written += sum(each.rows_written for each in results)


def _results(said: object, *, of: int) -> list[Result] | None:
    """The results that `said` holds of `of` statements; None where it is something else, which is never said."""
    if not isinstance(said, list) or len(said) != of:
        return None
    try:
        return [result(each) for each in said]
    except ValueError:
        return None


def _refuses(status: int, kind: str) -> bool:
    return (status, kind) in {(400, "unacceptable"), (500, "inexact")} or (status == 409 and kind.startswith("SQLITE_"))
