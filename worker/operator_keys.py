"""The keys that operators' credentials are verified with, as variables and a team's page tell them. Pure."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

CERTS: Final = "/cdn-cgi/access/certs"
"""Where a team of Cloudflare Access publishes its keys."""

FRESH_MS: Final = 3_600_000
"""How long a team's keys are taken as read."""

AGAIN_MS: Final = 60_000
"""How soon they are read again, at the earliest, for a key that is not among them."""

FAILED_MS: Final = 5_000
"""How soon they are read again, at the earliest, where they could not be."""

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class Team:
    """The team and the application of Cloudflare Access that are pinned here."""

    url: str
    audience: str


@dataclass(slots=True)
class Certs:
    """A team's keys by their names; they were read at the instant `read_at`, or could not be for the `problem`."""

    keys: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    read_at: int | None = None
    problem: str | None = None

    def due(self, key_id: str, *, now: int) -> bool:
        """Whether to read them (again) before `key_id` is looked for.

        A flood of unknown names is no reason to, and neither is one that comes while the team's page is away.
        """
        if self.read_at is None:
            return True
        if self.problem is not None:
            return now - self.read_at >= FAILED_MS
        return now - self.read_at >= (FRESH_MS if key_id in self.keys else AGAIN_MS)

    def read(self, keys: Mapping[str, dict[str, Any]], *, now: int) -> None:
        """Take what the page told."""
        self.keys, self.read_at, self.problem = keys, now, None

    def failed(self, problem: str, *, now: int) -> None:
        """Keep the keys that are known, and why there are no newer ones."""
        self.read_at, self.problem = now, problem


def own_keys(text: str) -> dict[str, bytes]:
    """The project's own public keys by their names: `NAME:KEY` parted by spaces. What is none is left out."""
    found: dict[str, bytes] = {}
    for each in text.split():
        name, _, encoded = each.partition(":")
        try:
            key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            continue
        if name and len(key) == 32:
            found[name] = key
    return found


def team(url: str, audience: str) -> Team | None:
    """The pinned team, None where the variables do not pin one: both are needed, and its address must be its own."""
    address = urlsplit(url.rstrip("/"))
    secure = address.scheme == "https" or (address.scheme == "http" and address.hostname in LOOPBACK)
    pinned = secure and audience and address.netloc and not address.path
    return Team(url.rstrip("/"), audience) if pinned else None


def published(text: str) -> dict[str, dict[str, Any]]:
    """The RSA keys of a page of certificates, by name. Raise `ValueError` where it is none."""
    page = json.loads(text)
    if not isinstance(page, dict) or not isinstance(page.get("keys"), list):
        msg = "it holds no keys"
        raise ValueError(msg)  # noqa: TRY004 - a page is what it says, whatever its types
    return {
        each["kid"]: {"kty": "RSA", "n": each["n"], "e": each["e"], "alg": "RS256", "ext": True}
        for each in page["keys"]
        if isinstance(each, dict) and each.get("kty") == "RSA" and {"kid", "n", "e"} <= set(each)
    }
