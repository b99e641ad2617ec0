"""Who is let in at the operator's door of the real Worker, who is not, and what is kept of those."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from engine.operator.tokens import OperatorKey, _text, signed
from tests.edge.operators import AUDIENCE, Team, times
from tests.scale import scale
from tests.stores import PROJECT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.edge.operators import Door
    from tests.local_edge import Edge

DAY = 86_400
STRANGER = OperatorKey(Ed25519PrivateKey.generate())
OTHERS = Team()


def unsigned(_: bytes) -> bytes:
    return b""


def with_public_key(door: Door) -> Callable[[bytes], bytes]:
    """HMAC under what everybody may know: what a verifier checks that lets the credential choose the algorithm."""
    public = door.key.private.public_key().public_bytes_raw()
    return lambda content: hmac.digest(public, content, hashlib.sha256)


def claims(**others: Any) -> dict[str, Any]:
    return {"iss": "contextful", "aud": PROJECT, "sub": "mallory", **times(), **others}


def tampered(token: str) -> str:
    head, body, signature = token.split(".")
    told = json.loads(base64.urlsafe_b64decode(body + "=="))
    other = base64.urlsafe_b64encode(json.dumps(told | {"sub": "mallory"}).encode()).rstrip(b"=").decode()
    return f"{head}.{other}.{signature}"


TOKENS: dict[str, tuple[str, Callable[[Door], str]]] = {
    "no token at all": ("malformed", lambda _: "open-sesame"),
    "parts that are no base64url": ("malformed", lambda _: "a!.b!.c!"),
    "parts that are no JSON": ("malformed", lambda _: "bm8.bm8.bm8"),
    "parts that are nested past all measure": ("malformed", lambda _: f"{_text(b'[' * 5_900)}.e30.e30"),
    "a token of a megabyte's kind": ("malformed", lambda door: door.token(sub="x" * 9000)),
    "whose end has come": ("expired", lambda door: door.token(**times(ago=7200, lasts=3600))),
    "whose end comes this second": ("expired", lambda door: door.token(**times(ago=3600, lasts=3600))),
    "issued two minutes from now": ("not-yet-valid", lambda door: door.token(**times(ago=-120))),
    "that begins two minutes from now": ("not-yet-valid", lambda door: door.token(nbf=int(time.time()) + 120)),
    "without an end": ("no-expiry", lambda door: door.token(exp=None)),
    "whose end is a text": ("no-expiry", lambda door: door.token(exp=str(int(time.time()) + 60))),
    "whose end is true": ("no-expiry", lambda door: door.token(exp=True)),
    "without a beginning": ("malformed", lambda door: door.token(iat=None)),
    "that lives two months": ("lives-too-long", lambda door: door.token(**times(lasts=60 * DAY))),
    "of nobody": ("malformed", lambda door: door.token(sub=None)),
    "of a name that breaks lines": ("malformed", lambda door: door.token(sub="anna\ncontextful")),
    "of another issuer": ("wrong-issuer", lambda door: door.token(iss="somebody")),
    "signed with nothing": ("wrong-algorithm", lambda _: signed({"alg": "none", "kid": "k"}, claims(), unsigned)),
    "that says None": ("wrong-algorithm", lambda _: signed({"alg": "None", "kid": "k"}, claims(), unsigned)),
    "signed with the public key as a secret": (
        "wrong-algorithm",
        lambda door: signed({"alg": "HS256", "kid": door.key.id}, claims(), with_public_key(door)),
    ),
    "signed by the team with RS256": (
        "wrong-algorithm",
        lambda door: signed({"alg": "RS256", "kid": door.key.id}, claims(), door.team.sign),
    ),
    "of the team, as it stands": ("wrong-algorithm", lambda door: door.team.assertion()),
    "that says EdDSA and is signed with RS256": (
        "wrong-signature",
        lambda door: signed({"alg": "EdDSA", "kid": door.key.id}, claims(), door.team.sign),
    ),
    "that says EdDSA and is not signed": (
        "wrong-signature",
        lambda door: signed({"alg": "EdDSA", "kid": door.key.id}, claims(), unsigned),
    ),
    "of a key nobody knows": ("unknown-key", lambda door: door.token(header={"kid": "k-9"}, key=STRANGER)),
    "that names no key": ("unknown-key", lambda door: door.token(header={"kid": None})),
    "of a stranger under a name that is known": ("wrong-signature", lambda door: door.token(key=STRANGER)),
    "changed after it was signed": ("wrong-signature", lambda door: tampered(door.token())),
    "that brings its own key": (
        "wrong-signature",
        lambda door: door.token(header={"jwk": {"kty": "OKP"}, "jku": "http://127.0.0.1:9/keys"}, key=STRANGER),
    ),
    "that asks for an extension": ("malformed", lambda door: door.token(header={"crit": ["exp"]})),
}

ASSERTIONS: dict[str, tuple[str, Callable[[Door], str]]] = {
    "that is none": ("malformed", lambda _: "open-sesame"),
    "whose end has come": ("expired", lambda door: door.team.assertion(**times(ago=7200, lasts=3600))),
    "issued two minutes from now": ("not-yet-valid", lambda door: door.team.assertion(**times(ago=-120))),
    "without an end": ("no-expiry", lambda door: door.team.assertion(exp=None)),
    "for another application": ("wrong-audience", lambda door: door.team.assertion(aud=["another"])),
    "for no application": ("wrong-audience", lambda door: door.team.assertion(aud=None)),
    "for an application whose name holds this one's": (
        "wrong-audience",
        lambda door: door.team.assertion(aud=f"{AUDIENCE}0"),
    ),
    "of another team": ("wrong-issuer", lambda door: door.team.assertion(iss="https://other.cloudflareaccess.com")),
    "of a key that the team does not publish": (
        "unknown-key",
        lambda door: door.team.assertion(header={"kid": "old-key"}),
    ),
    "signed by another team under this one's key": (
        "wrong-signature",
        lambda door: signed({"alg": "RS256", "kid": door.team.key_id}, {"iss": door.team.url, **times()}, OTHERS.sign),
    ),
    "signed with the project's own key": ("wrong-algorithm", lambda door: door.token()),
    "signed with the published key as a secret": (
        "wrong-algorithm",
        lambda door: signed(
            {"alg": "HS256", "kid": door.team.key_id},
            claims(iss=door.team.url, aud=[AUDIENCE]),
            lambda content: hmac.digest(json.dumps(door.team.page).encode(), content, hashlib.sha256),
        ),
    ),
    "that says RS256 and is not signed": (
        "wrong-signature",
        lambda door: signed({"alg": "RS256", "kid": door.team.key_id}, {"iss": door.team.url, **times()}, unsigned),
    ),
    "of nobody": ("malformed", lambda door: door.team.assertion(email=None)),
}


def test_a_token_of_the_project_opens_the_door(open_door: Door):
    before = open_door.refusals()

    answer = open_door.ask(token=open_door.token())

    assert answer.status_code == 200
    assert isinstance(answer.json()["guards"], list)
    assert open_door.refusals() == before


@pytest.mark.parametrize("ahead", [0, 45])
def test_a_clock_that_is_a_little_ahead_is_forgiven(open_door: Door, ahead: int):
    assert open_door.ask(token=open_door.token(**times(ago=-ahead))).status_code == 200
    assert open_door.ask(assertion=open_door.team.assertion(**times(ago=-ahead))).status_code == 200


def test_whom_access_vouches_for_is_let_in_by_a_name_of_its_own(open_door: Door):
    for known in ({"email": "anna@example.com"}, {"email": None, "common_name": "ci.access"}, {"aud": AUDIENCE}):
        assert open_door.ask(assertion=open_door.team.assertion(**known)).status_code == 200, known


def test_a_token_that_is_shown_decides_whatever_access_says(open_door: Door):
    answer = open_door.ask(token="open-sesame", assertion=open_door.team.assertion())

    assert answer.status_code == 401


def test_without_a_credential_nothing_is_told(door: Door):
    guard = door.dead().guard

    for answer in (door.ask(), door.ask(f"guards?token={guard.token}")):
        assert answer.status_code == 401
        assert answer.json()["error"]["reason"] == "missing"
        assert guard.idempotency_key not in answer.text
    other_scheme = {"authorization": f"Basic {door.token()}"}
    assert door.http.get(f"/v1/projects/{PROJECT}/guards", headers=other_scheme).status_code == 401


@pytest.mark.parametrize("name", sorted(TOKENS))
def test_a_token_is_refused_and_counted(open_door: Door, name: str):
    reason, made = TOKENS[name]

    before = open_door.told(reason)

    answer = open_door.ask(token=made(open_door))

    assert (answer.status_code, answer.json()["error"]["reason"]) == (401, reason)
    assert open_door.told(reason, after=before) == before + 1
    assert open_door.refusals()[reason, PROJECT] >= 1


@pytest.mark.parametrize("name", sorted(ASSERTIONS))
def test_an_assertion_is_refused_and_counted(open_door: Door, name: str):
    reason, made = ASSERTIONS[name]

    before = open_door.told(reason)

    answer = open_door.ask(assertion=made(open_door))

    assert (answer.status_code, answer.json()["error"]["reason"]) == (401, reason)
    assert open_door.told(reason, after=before) == before + 1
    assert open_door.refusals()[reason, PROJECT] >= 1


def test_a_credential_of_another_project_is_good_for_nothing_here(open_door: Door):
    theirs = open_door.ask(token=open_door.token(aud="another-shop"))
    elsewhere = open_door.http.get(
        "/v1/projects/other/guards", headers={"authorization": f"Bearer {open_door.token()}"}
    )

    for answer in (theirs, elsewhere):
        assert (answer.status_code, answer.json()["error"]["reason"]) == (403, "wrong-project")
    assert {("wrong-project", PROJECT), ("wrong-project", "another")} <= set(open_door.refusals())


def test_a_stranger_reconciles_nothing(door: Door):
    dead = door.dead(gone=True)
    evidence = f"receipt:{dead.guard.idempotency_key}:ch_1"

    for token in ("open-sesame", door.token(key=STRANGER), door.token(aud="other")):
        assert door.reconcile(dead.guard.token, token=token, evidence=evidence).status_code in {401, 403}

    assert door.tokens() == [dead.guard.token]
    assert door.audits() == []


def test_a_flood_of_refusals_costs_few_rows_and_names_no_stranger(open_door: Door):
    flood = scale(short=40, full=400)

    for number in range(flood):
        headers = {"authorization": f"Bearer guess-{number}"}
        open_door.http.get(f"/v1/projects/{PROJECT if number % 2 else f'p-{number}'}/guards", headers=headers)

    counted = open_door.refusals()
    assert all(counted["malformed", project] >= flood / 4 for project in (PROJECT, "another"))
    assert {project for _, project in counted} == {PROJECT, "another"}
    asked = open_door.binding.rows(
        "SELECT minute, count(*) AS n FROM operator_refusals WHERE reason = 'malformed' GROUP BY 1"
    )
    assert all(rows <= 2 for _, rows in asked)


def test_no_credential_is_kept_or_told_anywhere(open_door: Door):
    shown = [
        open_door.token(key=STRANGER),
        open_door.token(**times(ago=7200)),
        open_door.token(),
        open_door.team.assertion(exp=None),
    ]

    for token in shown:
        open_door.ask(token=token)
        open_door.ask(assertion=token)

    rows = json.dumps(open_door.binding.rows("SELECT reason, project FROM operator_refusals"))
    log = (open_door.edge.state / "edge.log").read_text(encoding="utf-8")
    assert "operator refused: wrong-signature" in log
    for token in shown:
        for part in token.split("."):
            assert part not in rows + log


def test_the_teams_page_is_read_once_for_many(open_door: Door):
    assert open_door.ask(assertion=open_door.team.assertion()).status_code == 200
    before = open_door.team.reads

    for number in range(10):
        open_door.ask(assertion=open_door.team.assertion())
        open_door.ask(assertion=open_door.team.assertion(header={"kid": f"guess-{number}"}))

    # Once more at most, in a minute's time: a flood of names that nobody knows is no reason to ask a team for its keys.
    assert open_door.team.reads - before <= 1


def test_refusals_of_a_store_that_was_never_initialized_are_refusals_all_the_same(edge: Edge):
    headers = {"authorization": "Bearer open-sesame"}

    answer = httpx.get(f"{edge.public}/v1/projects/contextful/guards", headers=headers, trust_env=False, timeout=30)

    assert (answer.status_code, answer.json()["error"]["reason"]) == (401, "malformed")


def test_a_worker_that_pins_no_team_takes_nobodys_word(edge: Edge, open_door: Door):
    headers = {"cf-access-jwt-assertion": open_door.team.assertion()}

    answer = httpx.get(f"{edge.public}/v1/projects/contextful/guards", headers=headers, trust_env=False, timeout=30)

    assert (answer.status_code, answer.json()["error"]["reason"]) == (401, "wrong-issuer")
