"""Operators at the Worker's door: credentials honest and other, a team of Cloudflare Access, guards to ask about."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import httpx
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from engine.operator.tokens import OperatorKey, _text, signed
from tests.answering import Answering, listening
from tests.clocks import SettableClock
from tests.guarded import HOUR, Dead, died_sending
from tests.stores import PROJECT, Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.edge.conftest import Binding
    from tests.local_edge import Edge

AUDIENCE: Final = "4714c1358e65fe4b408ad6d432a5f878"
BEHIND: Final = 300_000
"""Milliseconds by which the dead of these tests lie back, as the Worker sees it: their leases have lapsed."""


@dataclass
class Team:
    """A team of Cloudflare Access: its key, what it signs, and the page of its certificates."""

    key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))
    key_id: str = "team-key-1"
    url: str = ""
    reads: int = 0

    @property
    def page(self) -> dict[str, Any]:
        numbers = self.key.public_key().public_numbers()
        n, e = (_text(each.to_bytes((each.bit_length() + 7) // 8, "big")) for each in (numbers.n, numbers.e))
        return {"keys": [{"kid": self.key_id, "kty": "RSA", "alg": "RS256", "use": "sig", "n": n, "e": e}]}

    def sign(self, content: bytes) -> bytes:
        return self.key.sign(content, padding.PKCS1v15(), SHA256())

    def assertion(self, *, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """What Access vouches for, with other claims where they are given; None leaves one out."""
        usual = {"iss": self.url, "aud": [AUDIENCE], "email": "anna@example.com", **times()}
        return signed(
            {"alg": "RS256", "kid": self.key_id} | (header or {}), given(usual | claims), self.sign
        )  # fmt: skip

    @contextmanager
    def published(self) -> Iterator[Team]:
        """Serve the certificates as long as the block runs."""
        with listening(_Certificates, team=self) as self.url:
            yield self


class _Certificates(Answering):
    team: Team

    def reply(self) -> None:
        self.team.reads += 1
        self.answer(200 if self.path == "/cdn-cgi/access/certs" else 404, self.team.page)


@dataclass
class Door:
    """An edge whose operators are asked who they are, its project's key, and the team that it pins."""

    edge: Edge
    team: Team
    key: OperatorKey
    http: httpx.Client
    binding: Binding
    folder: Path
    stores: list[Store] = field(default_factory=list)

    @contextmanager
    def at(self, edge: Edge, folder: Path) -> Iterator[Door]:
        """The door of another edge, whose state is in `folder`."""
        key = OperatorKey.kept(folder / "operator.pem")
        with (
            httpx.Client(base_url=edge.public, trust_env=False, timeout=30) as http,
            httpx.Client(base_url=edge.private, trust_env=False, timeout=30) as private,
        ):
            other = Door(edge, self.team, key, http, type(self.binding)(private), folder)
            yield other
            other.leave()

    def token(self, *, header: dict[str, Any] | None = None, key: OperatorKey | None = None, **claims: Any) -> str:
        """A token of this project, with other claims where they are given; None leaves one out."""
        signing = key or self.key
        usual = {"iss": "contextful", "aud": PROJECT, "sub": "laptop-1", "jti": "1", **times()}
        head = {"alg": "EdDSA", "typ": "JWT", "kid": self.key.id} | (header or {})
        return signed(given(head), given(usual | claims), signing.private.sign)

    def ask(self, path: str = "guards", *, token: str | None = None, assertion: str | None = None) -> httpx.Response:
        """Ask for guards with one credential, or with none."""
        headers = {"authorization": f"Bearer {token}"} if token is not None else {}
        headers |= {"cf-access-jwt-assertion": assertion} if assertion is not None else {}
        return self.http.get(f"/v1/projects/{PROJECT}/{path}", headers=headers)

    def reconcile(self, guard: str, *, token: str | None = None, loses: str = "", **body: Any) -> httpx.Response:
        """Ask to release a guard, with an honest token unless another is given; a lossy D1 is told what it loses."""
        headers = {"authorization": f"Bearer {self.token() if token is None else token}", "x-loses": loses}
        return self.http.post(
            f"/v1/projects/{PROJECT}/guards/{guard}/reconcile", headers=headers, json={"operator": "anna"} | body
        )

    def store(self, *, behind: int = BEHIND, seal: str | None = None) -> Store:
        """A store in the edge's D1 whose clock stands behind the Worker's."""
        settings = {"CONTEXTFUL_BINDING_URL": self.edge.private} | ({"CONTEXTFUL_SEAL_KEY": seal} if seal else {})
        clock = SettableClock(int(time.time() * 1000) - behind)
        store = Store("cloudflare-d1", self.folder, clock, lambda: settings).initialized()
        self.stores.append(store)
        return store

    def dead(self, *, behind: int = BEHIND, window: int | None = HOUR, gone: bool = False, **options: Any) -> Dead:
        """An engine that died in a callback so long ago: its guard stands."""
        return died_sending(self.store(behind=behind, **options), window=window, gone=gone)

    def leave(self) -> None:
        """Close what was opened in this machine."""
        while self.stores:
            self.stores.pop().close()

    def emptied(self) -> None:
        """Leave no guard and no owner; what was refused stays on record, as the Worker remembers that it wrote it."""
        tables = ("guards", "guard_audit", "owners", "holders", "runs", "journal")
        assert self.binding.batch(*((f"DELETE FROM {each}",) for each in tables)).status_code == 200

    def told(self, reason: str, *, after: int = -1) -> int:
        """How many refusals of this project the log tells; the host may take a moment to write more than `after`."""
        line = f"operator refused: {reason} (project {PROJECT})\n"
        for _ in range(100):
            count = (self.edge.state / "edge.log").read_text(encoding="utf-8").count(line)
            if count > after:
                break
            time.sleep(0.05)
        return count

    def refusals(self) -> dict[tuple[str, str], int]:
        """What was counted at the door, by reason and project."""
        rows = self.binding.rows("SELECT reason, project, sum(count) AS n FROM operator_refusals GROUP BY 1, 2")
        return {(reason, project): count for reason, project, count in rows}

    def audits(self) -> list[list[Any]]:
        return self.binding.rows("SELECT token, evidence, operator FROM guard_audit ORDER BY id")

    def tokens(self) -> list[str]:
        """The guards that stand."""
        return [token for [token] in self.binding.rows("SELECT DISTINCT token FROM guards ORDER BY token")]


def times(*, ago: int = 10, lasts: int = 3600) -> dict[str, Any]:
    """The claims of a credential issued so many seconds ago that is good for so many."""
    issued = int(time.time()) - ago
    return {"iat": issued, "exp": issued + lasts}


def given(claims: dict[str, Any]) -> dict[str, Any]:
    """The claims that are any."""
    return {name: value for name, value in claims.items() if value is not None}
