"""A desk behind a project's Worker, asked over HTTPS with an operator's credential."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from engine.binding import Exchange, Patience
from engine.errors import (
    ExecutionGuardUnknown,
    GuardValueUnusable,
    OperatorAnswerLost,
    OperatorEndpointUnreachable,
    StorageBindingUnavailable,
)
from engine.guards.desk import outcome, signed
from engine.guards.evidence import evidence as read
from engine.operator.answers import document, refusal, standing
from engine.operator.claims import RS256, NotProven, presented
from engine.shapes import INLINE_LIMIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

    from engine.guards.guard import Standing
    from engine.sealed import Seal

PATIENCE: Final = Patience(read_s=20, write_s=60)


@dataclass(frozen=True, slots=True)
class Remote:
    """Where the operators of a project are served, and what to show there."""

    project: str
    endpoint: str
    credential: str


class RemoteDesk:
    """A desk over the operator's routes. What is asked again only reads; what changes something is sent once."""

    cooperative: Final = None

    def __init__(self, remote: Remote, *, seal: Seal | None, now_s: int, patience: Patience = PATIENCE) -> None:
        self._remote = remote
        self._seal = seal
        self._now_s = now_s
        self._exchange = Exchange(remote.endpoint, patience=patience)
        self._path = f"/v1/projects/{quote(remote.project, safe='')}/guards"

    def guards(self, token: str | None) -> list[Standing]:
        """Every guard that stands, or the one."""
        query = f"?{urlencode({'token': token})}" if token is not None else ""
        try:
            answer = self._exchange.ask("GET", self._path + query, headers=self._headers)
        except StorageBindingUnavailable as lost:
            raise self._unreachable(lost.reason) from lost
        found = self._said(answer)
        return [standing(each, now=found["now"]) for each in found["guards"]]

    def reconcile(
        self, token: str, *, evidence: str, operator: str, value: bytes | None, dry_run: bool
    ) -> dict[str, Any]:
        """Release the guard, or supply a value. Where the answer is lost, look; nothing is sent a second time.

        Raise `Config` for an operator who is no name, as a store here does, before anything is sent.
        """
        asked: dict[str, Any] = {"evidence": evidence, "operator": signed(operator), "dry_run": dry_run}
        if value is not None:
            asked["value"] = {"b64": base64.b64encode(self._placed(value)).decode()}
        path = f"{self._path}/{quote(token, safe='')}/reconcile"
        headers = {**self._headers, "content-type": "application/json"}
        try:
            answer = self._exchange.tell("POST", path, content=json.dumps(asked).encode(), headers=headers)
        except StorageBindingUnavailable as lost:
            if lost.applied == "no":
                raise self._unreachable(lost.reason) from lost
            found = lost.reason
        else:
            if not _lost(answer):
                return self._said(answer)
            found = f"HTTP {answer.status_code}"
        if not dry_run and (operator_told := self._applied(token, asked)):
            given = read(evidence, token=token)
            return outcome(token, given, operator=operator_told, valued=value is not None, dry_run=False)
        raise OperatorAnswerLost(endpoint=self._remote.endpoint, token=token, found=found)

    def close(self) -> None:
        """Close the connections."""
        self._exchange.close()

    @property
    def _headers(self) -> dict[str, str]:
        credential = self._remote.credential
        try:
            presented(credential, algorithm=RS256)
        except NotProven:
            return {"authorization": f"Bearer {credential}"}
        # What Cloudflare Access issued: it looks for the first at its own door, the Worker behind it for the second.
        return {"cf-access-token": credential, "cf-access-jwt-assertion": credential}

    def _placed(self, value: bytes) -> bytes:
        if len(value) > INLINE_LIMIT:
            found = f"it has {len(value):,} bytes, and a Worker takes {INLINE_LIMIT:,}"
            raise GuardValueUnusable(place="--value", found=found)
        return self._seal.close(value, name="value") if self._seal else value

    def _applied(self, token: str, asked: Mapping[str, Any]) -> str | None:
        """Whom the audit names, where what stands can only be what was asked for; None where it does not show that."""
        try:
            self.guards(token)
        except ExecutionGuardUnknown as gone:
            done = gone.released or {}
            audited = done.get("evidence") == asked["evidence"]
            named: str = done.get("operator", "")
            valued = "value" not in asked or done.get("recorded")
            return named if audited and valued and named.startswith(f"{asked['operator']} (") else None
        except OperatorEndpointUnreachable:
            return None
        return None

    def _said(self, answer: httpx.Response) -> dict[str, Any]:
        """The document of an answer; an error is raised as what it says."""
        said = document(answer)
        if answer.status_code == 200 and said:
            return said
        raise refusal(answer, said, endpoint=self._remote.endpoint, now_s=self._now_s)

    def _unreachable(self, reason: str) -> OperatorEndpointUnreachable:
        return OperatorEndpointUnreachable(endpoint=self._remote.endpoint, found=reason)


def _lost(answer: httpx.Response) -> bool:
    """Whether an answer says nothing of what became of a request: it came from somebody on the way, or D1 gave none."""
    error = document(answer).get("error")
    return answer.status_code >= 500 and (not isinstance(error, dict) or error.get("applied") == "unknown")
