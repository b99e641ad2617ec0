"""Who asks at the operator's door: a credential's signature, checked with the platform's cryptography."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import js
from pyodide.ffi import JsException, to_js
from workers import fetch

from engine.errors import OperatorEndpointUnreachable
from engine.operator.claims import (
    EDDSA,
    RS256,
    NotProven,
    Reason,
    access_subject,
    presented,
    token_subject,
)
from worker.operator_keys import CERTS, Certs, own_keys, published, team

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.operator.claims import Presented
    from worker.operator_keys import Team

_ED25519 = {"name": "Ed25519"}
_RSA = {"name": "RSASSA-PKCS1-v1_5", "hash": "SHA-256"}

_certs: dict[str, Certs] = {}


@dataclass(frozen=True, slots=True)
class Door:
    """What the Worker's variables pin: its project, the project's own keys, and a team of Cloudflare Access."""

    project: str
    keys: dict[str, bytes]
    team: Team | None

    @classmethod
    def of(cls, variable: Callable[[str], str]) -> Door:
        """Read the variables."""
        pinned = team(variable("ACCESS_TEAM"), variable("ACCESS_AUD"))
        return cls(variable("PROJECT"), own_keys(variable("OPERATOR_KEYS")), pinned)

    async def identified(self, *, authorization: str | None, assertion: str | None, now: int) -> str:
        """Who asks, in words for the audit. A token that is shown decides alone; else what Access vouches for.

        Raise `NotProven`, or `OperatorEndpointUnreachable` where the team's keys cannot be read.
        """
        if authorization is not None:
            scheme, _, text = authorization.partition(" ")
            if scheme.lower() != "bearer":
                raise NotProven(Reason.MALFORMED, "the Authorization header holds no bearer token")
            return f"token of {await self._token(text.strip(), now=now)}"
        if assertion is not None:
            return f"access of {await self._access(assertion.strip(), now=now)}"
        raise NotProven(Reason.MISSING, "none was sent")

    async def _token(self, text: str, *, now: int) -> str:
        shown = presented(text, algorithm=EDDSA)
        if shown.key_id not in self.keys:
            raise NotProven(Reason.UNKNOWN_KEY, "it is signed with a key that is not among OPERATOR_KEYS")
        key = await _imported("raw", to_js(self.keys[shown.key_id]), _ED25519)
        await _require_signed(shown, key, _ED25519)
        return token_subject(shown.claims, project=self.project, now_s=now // 1000)

    async def _access(self, text: str, *, now: int) -> str:
        if self.team is None:
            raise NotProven(Reason.ISSUER, "this Worker pins no team: set ACCESS_TEAM and ACCESS_AUD")
        shown = presented(text, algorithm=RS256)
        found = await _team_key(self.team, shown.key_id, now=now)
        if found is None:
            raise NotProven(Reason.UNKNOWN_KEY, "it is signed with a key that the team does not publish")
        await _require_signed(shown, await _imported("jwk", _object(found), _RSA), _RSA)
        return access_subject(shown.claims, team=self.team.url, audience=self.team.audience, now_s=now // 1000)


async def _team_key(pinned: Team, key_id: str, *, now: int) -> dict[str, Any] | None:
    """The team's key of that name, its page read when it is due."""
    kept = _certs.setdefault(pinned.url, Certs())
    if kept.due(key_id, now=now):
        try:
            kept.read(await _page(pinned.url + CERTS), now=now)
        except (JsException, OSError, ValueError, KeyError, TypeError) as problem:
            kept.failed(str(problem)[:200], now=now)
    if key_id not in kept.keys and kept.problem is not None:
        raise OperatorEndpointUnreachable(endpoint=pinned.url, found=kept.problem)
    return kept.keys.get(key_id)


async def _page(url: str) -> dict[str, dict[str, Any]]:
    answer = await fetch(url)
    if answer.status != 200:
        msg = f"{CERTS} answered HTTP {answer.status}"
        raise ValueError(msg)
    return published(await answer.text())


async def _imported(kind: str, key: Any, algorithm: dict[str, str]) -> Any:
    extractable = False
    return await js.crypto.subtle.importKey(kind, key, _object(algorithm), extractable, to_js(["verify"]))


async def _require_signed(shown: Presented, key: Any, algorithm: dict[str, str]) -> None:
    """Raise `NotProven` unless `key` signed it."""
    signature, signed = to_js(shown.signature), to_js(shown.signed)
    try:
        proven = await js.crypto.subtle.verify(_object(algorithm), key, signature, signed)
    except JsException:  # bytes that cannot be a signature of this kind
        proven = False
    if not proven:
        raise NotProven(Reason.SIGNATURE, "its signature is not of the key that it names")


def _object(values: dict[str, Any]) -> Any:
    return to_js(values, dict_converter=js.Object.fromEntries)
