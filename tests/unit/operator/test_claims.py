"""Credentials taken apart and judged, apart from any signature."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.nesting import DEEPEST
from engine.operator.claims import (
    EDDSA,
    LARGEST,
    LONGEST_S,
    SKEW_S,
    NotProven,
    Reason,
    access_subject,
    presented,
    token_subject,
)

NOW = 1_800_000_000
CLAIMS = {"iss": "contextful", "aud": "shop", "sub": "anna", "iat": NOW, "exp": NOW + 60}


def part(value: Any) -> str:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth - 1):
        found = [found]
    return found


def token(header: Any = None, claims: Any = None, signature: bytes = b"s" * 64) -> str:
    head = {"alg": EDDSA, "kid": "k"} if header is None else header
    return f"{part(head)}.{part(CLAIMS if claims is None else claims)}.{part(signature)}"


def refusal(claims: dict[str, Any], *, now_s: int = NOW) -> Reason:
    with pytest.raises(NotProven) as found:
        token_subject(claims, project="shop", now_s=now_s)
    return found.value.reason


def test_what_was_signed_is_the_text_that_came():
    text = token()

    shown = presented(text, algorithm=EDDSA)

    assert shown.signed.decode() == text.rpartition(".")[0]
    assert (shown.key_id, shown.claims, shown.signature) == ("k", CLAIMS, b"s" * 64)


@given(st.text())
def test_whatever_comes_is_taken_apart_or_refused(text: str):
    with pytest.raises(NotProven) as found:
        presented(text, algorithm=EDDSA)

    assert found.value.reason is Reason.MALFORMED


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_whatever_its_parts_hold_is_taken_apart_or_refused(head: bytes, body: bytes):
    with pytest.raises(NotProven):
        presented(f"{part(head)}.{part(body)}.x", algorithm=EDDSA)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (token(header={"alg": EDDSA, "kid": "k", "x": nested(DEEPEST)}), Reason.MALFORMED),
        (token(claims=CLAIMS | {"x": nested(DEEPEST)}), Reason.MALFORMED),
        (token(claims={"a": "x" * LARGEST}), Reason.MALFORMED),
        (token(header=[]), Reason.MALFORMED),
        (token(header={"kid": "k"}), Reason.ALGORITHM),
        (token(header={"alg": "eddsa", "kid": "k"}), Reason.ALGORITHM),
        (token(header={"alg": [EDDSA], "kid": "k"}), Reason.ALGORITHM),
        (token(header={"alg": EDDSA, "kid": "k", "crit": []}), Reason.MALFORMED),
        (token(header={"alg": EDDSA}), Reason.UNKNOWN_KEY),
        (token(header={"alg": EDDSA, "kid": ""}), Reason.UNKNOWN_KEY),
        (token(header={"alg": EDDSA, "kid": {"a": 1}}), Reason.UNKNOWN_KEY),
        (token() + "=", Reason.MALFORMED),
    ],
)
def test_a_credential_of_another_make_is_refused(text: str, reason: Reason):
    with pytest.raises(NotProven) as found:
        presented(text, algorithm=EDDSA)

    assert found.value.reason is reason


@pytest.mark.parametrize("now_s", [NOW - SKEW_S, NOW, NOW + 59])
def test_a_token_is_good_from_its_issue_less_the_skew_to_its_end(now_s: int):
    assert token_subject(CLAIMS, project="shop", now_s=now_s) == "anna"


@pytest.mark.parametrize(
    ("now_s", "reason"), [(NOW - SKEW_S - 1, Reason.EARLY), (NOW + 60, Reason.EXPIRED), (NOW + 61, Reason.EXPIRED)]
)
def test_a_token_is_good_no_second_longer(now_s: int, reason: Reason):
    assert refusal(CLAIMS, now_s=now_s) is reason


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ({"iss": None}, Reason.ISSUER),
        ({"aud": ["shop"]}, Reason.PROJECT),
        ({"aud": "SHOP"}, Reason.PROJECT),
        ({"exp": None}, Reason.ENDLESS),
        ({"exp": NOW + 60.5}, Reason.ENDLESS),
        ({"exp": True}, Reason.ENDLESS),
        ({"exp": 1 << 53}, Reason.ENDLESS),
        ({"exp": -1}, Reason.ENDLESS),
        ({"iat": "now"}, Reason.MALFORMED),
        ({"iat": None, "nbf": NOW}, Reason.MALFORMED),
        ({"nbf": NOW + SKEW_S + 1}, Reason.EARLY),
        ({"nbf": NOW + SKEW_S + 1.5}, Reason.MALFORMED),
        ({"nbf": "later"}, Reason.MALFORMED),
        ({"exp": NOW + LONGEST_S + 1}, Reason.LIFETIME),
        ({"sub": ""}, Reason.MALFORMED),
        ({"sub": 7}, Reason.MALFORMED),
        ({"sub": "a" * 201}, Reason.MALFORMED),
        ({"sub": "anna\x1b[2J"}, Reason.MALFORMED),
    ],
)
def test_a_claim_that_is_not_as_it_must_be_is_named(others: dict[str, Any], reason: Reason):
    assert refusal(CLAIMS | others) is reason


@pytest.mark.parametrize("others", [{"exp": NOW + LONGEST_S}, {"nbf": 0}, {"nbf": NOW + SKEW_S}])
def test_a_token_that_is_just_as_it_must_be_is_good(others: dict[str, int]):
    assert token_subject(CLAIMS | others, project="shop", now_s=NOW) == "anna"


def test_the_longest_name_is_taken():
    assert token_subject(CLAIMS | {"sub": "a" * 200}, project="shop", now_s=NOW) == "a" * 200


@pytest.mark.parametrize(
    ("named", "subject"),
    [
        ({"email": "anna@example.com", "sub": "u-1"}, "anna@example.com"),
        ({"common_name": "ci.access", "email": ""}, "ci.access"),
        ({}, "anna"),
    ],
)
def test_access_names_a_person_before_a_service(named: dict[str, str], subject: str):
    told = CLAIMS | {"iss": "https://t.example.com", "aud": ["x", "y"]} | named

    assert access_subject(told, team="https://t.example.com", audience="y", now_s=NOW) == subject


@pytest.mark.parametrize(
    ("others", "reason"),
    [
        ({"iss": "https://other.example.com"}, Reason.ISSUER),
        ({"iss": "contextful"}, Reason.ISSUER),
        ({"exp": NOW}, Reason.EXPIRED),
        ({"exp": None}, Reason.ENDLESS),
        ({"iat": NOW + SKEW_S + 1, "exp": NOW + 3600}, Reason.EARLY),
    ],
)
def test_what_access_vouched_for_elsewhere_or_at_another_time_is_refused(others: dict[str, Any], reason: Reason):
    told = CLAIMS | {"iss": "https://t.example.com", "aud": ["y"]} | others

    with pytest.raises(NotProven) as found:
        access_subject(told, team="https://t.example.com", audience="y", now_s=NOW)

    assert found.value.reason is reason


@pytest.mark.parametrize("audiences", [None, [], ["yy"], "x", [["y"]], {"y": 1}])
def test_access_for_another_application_is_refused(audiences: Any):
    told = CLAIMS | {"iss": "https://t.example.com", "aud": audiences}

    with pytest.raises(NotProven) as found:
        access_subject(told, team="https://t.example.com", audience="y", now_s=NOW)

    assert found.value.reason is Reason.AUDIENCE
