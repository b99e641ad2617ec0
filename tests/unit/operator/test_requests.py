"""What an operator's tool may ask the Worker for, and what is refused before anything of it reaches D1."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from d1.guards.requests import SEALING, Listing, Reconcile, listing, place, reconcile
from engine.errors import OperatorRequestUnusable
from engine.nesting import DEEPEST
from engine.shapes import INLINE_LIMIT

GUARDS = "https://shop.example.com/v1/projects/shop/guards"
GIVEN = {"evidence": "receipt:k:ch_1", "operator": "anna"}


def listed(query: str) -> Listing:
    asked = place(GUARDS + query)
    assert asked is not None
    return listing(asked)


def asked_for(body: Any) -> Reconcile:
    asked = place(f"{GUARDS}/g-1/reconcile")
    assert asked is not None
    return reconcile(asked, body if isinstance(body, bytes) else json.dumps(body).encode())


def value(size: int) -> dict[str, str]:
    return {"b64": base64.b64encode(bytes(size)).decode()}


@pytest.mark.parametrize(("query", "token"), [("", None), ("?token=g-1", "g-1"), ("?token=", "")])
def test_a_listing_is_of_all_guards_or_of_one(query: str, token: str | None):
    assert listed(query) == Listing("shop", token)


@pytest.mark.parametrize("query", ["?token=g-1&token=g-2", "?since=1", "?token=g-1&since=", "?Token=g-1"])
def test_a_listing_takes_nothing_else(query: str):
    with pytest.raises(OperatorRequestUnusable):
        listed(query)


def test_what_is_asked_for_is_taken_as_it_came():
    assert asked_for(GIVEN) == Reconcile("shop", "g-1", "receipt:k:ch_1", "anna", None, dry_run=False)
    assert asked_for(GIVEN | {"operator": " anna ", "dry_run": True, "value": {"b64": "MQ=="}}) == Reconcile(
        "shop", "g-1", "receipt:k:ch_1", "anna", b"1", dry_run=True
    )
    assert asked_for(GIVEN | {"value": None}).value is None


@pytest.mark.parametrize(
    "others",
    [
        *({"evidence": "e" * 1000}, {"operator": "o" * 200}, {"operator": "Änne"}),
        {"value": value(INLINE_LIMIT + SEALING)},
    ],
)
def test_what_is_just_small_enough_is_taken(others: dict[str, Any]):
    assert asked_for(GIVEN | others).token == "g-1"


VALUES: list[Any] = ["MQ==", [], {}, {"b64": 1}, {"b64": "MQ==", "x": 1}, {"b64": "M"}]

UNUSABLE: list[dict[str, Any]] = [
    *({"evidence": each} for each in (None, "", "e" * 1001, 7, ["receipt:k:ch_1"])),
    *({"operator": each} for each in (None, "", "  ", "o" * 201, 7, "anna\n", "anna\x1b[2J")),
    *({"dry_run": each} for each in (None, 0, 1, "true")),
    *({"value": each} for each in VALUES),
    *({"value": {"b64": each}} for each in ("MQ==\n", "M Q==", "é")),
    {"value": value(INLINE_LIMIT + SEALING + 1)},
    {"token": "g-2"},
]


@pytest.mark.parametrize("others", UNUSABLE)
def test_a_request_that_cannot_be_meant_is_refused_whole(others: dict[str, Any]):
    with pytest.raises(OperatorRequestUnusable):
        asked_for(GIVEN | others)


def test_an_operator_who_is_no_name_is_told_with_the_rule_and_what_to_do() -> None:
    with pytest.raises(OperatorRequestUnusable) as refused:
        asked_for(GIVEN | {"operator": "anna\n"})

    assert str(refused.value) == (
        "operator: 'anna\\n' is not a name of 1 to 200 printable characters; "
        'give the name of who says so: "operator": "anna"'
    )


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"7", b'"evidence"', b"{", b"\xff", b"[" * 10_000, b'{"evidence": ' + b"[" * DEEPEST],
)
def test_a_body_that_is_no_request_is_refused(body: bytes):
    with pytest.raises(OperatorRequestUnusable):
        asked_for(body)
