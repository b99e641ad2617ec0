"""An operator's credential as text: a signed JSON document, taken apart and judged. Pure.

The standard library alone: the Worker runs this module, and whoever makes a token on a laptop keeps to the same rules.
Nothing here checks a signature: that is the platform's cryptography, asked with what `presented` returns. Nothing of a
credential that has not been verified is believed, but which key to verify it with.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from engine.nesting import parsed

ISSUER: Final = "contextful"
"""Who issues a project's own tokens."""

EDDSA: Final = "EdDSA"
RS256: Final = "RS256"

LONGEST_S: Final = 31 * 86_400
"""Seconds from a token's issue to its end, at most."""

SKEW_S: Final = 60
"""Seconds by which the clock of a token's maker may be ahead."""

LARGEST: Final = 8_192
"""Characters of the longest credential that is looked at."""


class Reason(StrEnum):
    """Why a credential is refused: what the audit counts by."""

    MISSING = "missing"
    MALFORMED = "malformed"
    ALGORITHM = "wrong-algorithm"
    UNKNOWN_KEY = "unknown-key"
    SIGNATURE = "wrong-signature"
    ISSUER = "wrong-issuer"
    AUDIENCE = "wrong-audience"
    PROJECT = "wrong-project"
    EXPIRED = "expired"
    EARLY = "not-yet-valid"
    ENDLESS = "no-expiry"
    LIFETIME = "lives-too-long"


class NotProven(Exception):
    """A credential proves nothing: why, and in words that tell nothing of the credential itself."""

    def __init__(self, reason: Reason, found: str) -> None:
        super().__init__(found)
        self.reason = reason
        self.found = found


@dataclass(frozen=True, slots=True)
class Presented:
    """A credential taken apart: what it says of itself, the bytes that were signed, and the signature."""

    algorithm: str
    key_id: str
    claims: dict[str, Any]
    signed: bytes
    signature: bytes


def presented(text: str, *, algorithm: str) -> Presented:
    """Take the compact JWT `text` apart. Raise `NotProven` unless it is one and its header says `algorithm`.

    The caller says which algorithm it verifies with, never the credential.
    """
    if len(text) > LARGEST or text.count(".") != 2:
        raise NotProven(Reason.MALFORMED, "it is no signed token of three parts")
    head, body, signature = text.split(".")
    header, claims = _document(head), _document(body)
    if header.get("alg") != algorithm:
        raise NotProven(Reason.ALGORITHM, f"it is not signed with {algorithm}, which is what is taken here")
    if "crit" in header:
        raise NotProven(Reason.MALFORMED, "it asks for extensions that nobody here knows")
    key_id = header.get("kid")
    if not isinstance(key_id, str) or not key_id:
        raise NotProven(Reason.UNKNOWN_KEY, "it does not name the key it is signed with")
    return Presented(algorithm, key_id, claims, f"{head}.{body}".encode(), _bytes(signature))


def token_subject(claims: dict[str, Any], *, project: str, now_s: int) -> str:
    """Whom a project's own token, its signature verified, names. Raise `NotProven`."""
    if claims.get("iss") != ISSUER:
        raise NotProven(Reason.ISSUER, f"it was not issued by {ISSUER}")
    if claims.get("aud") != project:
        raise NotProven(Reason.PROJECT, f"it is of another project, and this is {project}")
    issued, expires = _require_current(claims, now_s=now_s)
    if expires - issued > LONGEST_S:
        raise NotProven(Reason.LIFETIME, f"it lives longer than {LONGEST_S // 86_400} days")
    return _named(claims, "sub")


def access_subject(claims: dict[str, Any], *, team: str, audience: str, now_s: int) -> str:
    """Whom Cloudflare Access, its signature verified, let through: a person or a service. Raise `NotProven`."""
    if claims.get("iss") != team:
        raise NotProven(Reason.ISSUER, "it was not issued by the team that is pinned here")
    audiences = claims.get("aud")
    if audience not in (audiences if isinstance(audiences, list) else [audiences]):
        raise NotProven(Reason.AUDIENCE, "it is for another application than the one that is pinned here")
    _require_current(claims, now_s=now_s)
    return _named(claims, "email", "common_name", "sub")


def _require_current(claims: dict[str, Any], *, now_s: int) -> tuple[int, int]:
    """The instants of issue and end. Raise `NotProven` unless `now_s` lies between them, the maker's clock forgiven."""
    expires, issued = _second(claims, "exp"), _second(claims, "iat")
    if expires is None:
        raise NotProven(Reason.ENDLESS, "it does not say when it ends")
    if issued is None:
        raise NotProven(Reason.MALFORMED, "it does not say when it was issued")
    if now_s >= expires:
        raise NotProven(Reason.EXPIRED, f"it ended {now_s - expires} s ago by the Worker's clock")
    not_before = _second(claims, "nbf") if "nbf" in claims else issued
    if not_before is None:
        raise NotProven(Reason.MALFORMED, "it does not say in whole seconds from when on it is good")
    begins = max(issued, not_before)
    if begins > now_s + SKEW_S:
        raise NotProven(Reason.EARLY, f"it begins {begins - now_s} s from now by the Worker's clock")
    return issued, expires


def _second(claims: dict[str, Any], name: str) -> int | None:
    """The instant of a claim in seconds since the epoch, None where it is none."""
    value = claims.get(name)
    whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53
    return value if whole else None


def _named(claims: dict[str, Any], *names: str) -> str:
    """The first of the claims that is a name. Raise `NotProven`."""
    for name in names:
        value = claims.get(name)
        if isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable():
            return value
    raise NotProven(Reason.MALFORMED, "it does not say whose it is")


def _document(part: str) -> dict[str, Any]:
    content = _bytes(part)
    try:
        found = parsed(content)
    except ValueError:
        raise NotProven(Reason.MALFORMED, "one of its parts is no JSON") from None
    if not isinstance(found, dict):
        raise NotProven(Reason.MALFORMED, "one of its parts is no JSON object")
    return found


def _bytes(part: str) -> bytes:
    try:
        if "=" in part:
            raise ValueError
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise NotProven(Reason.MALFORMED, "one of its parts is not base64url") from None
