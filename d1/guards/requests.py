"""What an operator's tool asks of the Worker, read and checked before anything of it reaches D1. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from engine.errors import OperatorRequestUnusable
from engine.guards.evidence import NAME, signature
from engine.nesting import parsed
from engine.shapes import INLINE_LIMIT

LARGEST: Final = 2 * INLINE_LIMIT
"""Bytes of the largest body that is read: a value of the largest size in base64, and what goes with it."""

SEALING: Final = 64
"""Bytes by which sealing makes a value longer, at most."""

_PLACE: Final = re.compile(r"/v1/projects/(?P<project>[^/]+)/guards(?:/(?P<token>[^/]+)/reconcile)?")
_FIELDS: Final = {"evidence", "operator", "value", "dry_run"}


@dataclass(frozen=True, slots=True)
class Listing:
    """Asks which guards stand, all or the one."""

    project: str
    token: str | None


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Asks to release a guard by evidence; `value` are the bytes to record for its step, as the store keeps them."""

    project: str
    token: str
    evidence: str
    operator: str
    value: bytes | None
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Place:
    """A project's operator route, with or without a guard's token in it."""

    project: str
    token: str | None
    query: str


def place(url: str) -> Place | None:
    """The operator route that `url` names, None where it names none."""
    address = urlsplit(url)
    match = _PLACE.fullmatch(address.path)
    if match is None:
        return None
    token = match["token"]
    return Place(unquote(match["project"]), None if token is None else unquote(token), address.query)


def listing(asked: Place) -> Listing:
    """The request for guards at `asked`. Raise `OperatorRequestUnusable`."""
    found = parse_qs(asked.query, keep_blank_values=True)
    if set(found) - {"token"} or len(found.get("token", [])) > 1:
        raise OperatorRequestUnusable(found="a listing takes one token at most, and nothing else")
    return Listing(asked.project, found["token"][0] if "token" in found else None)


def reconcile(asked: Place, body: bytes) -> Reconcile:
    """The request to reconcile the guard at `asked`. Raise `OperatorRequestUnusable`."""
    given = _parsed(body)
    evidence, who, dry_run = given.get("evidence"), given.get("operator"), given.get("dry_run", False)
    if not isinstance(evidence, str) or not 0 < len(evidence) <= 1000:
        raise OperatorRequestUnusable(found="evidence must be a text of 1 to 1000 characters")
    operator = signature(who) if isinstance(who, str) else None
    if operator is None:
        unusable = OperatorRequestUnusable(found=f"operator: {who!r:.80} is not {NAME}")
        raise unusable.advising('give the name of who says so: "operator": "anna"')
    if not isinstance(dry_run, bool):
        raise OperatorRequestUnusable(found="dry_run must be true or false")
    return Reconcile(asked.project, asked.token or "", evidence, operator, _value(given.get("value")), dry_run)


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        given = parsed(body)
    except ValueError as problem:
        raise OperatorRequestUnusable(found=f"the body is not JSON: {problem}") from None
    if not isinstance(given, dict) or (unknown := set(given) - _FIELDS):
        told = f", and has {', '.join(sorted(unknown))}" if isinstance(given, dict) else ""
        raise OperatorRequestUnusable(found=f"the body must be an object of {', '.join(sorted(_FIELDS))}{told}")
    return given


def _value(given: Any) -> bytes | None:
    match given:
        case None:
            return None
        case {"b64": str(text), **rest} if not rest:
            try:
                content = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                raise OperatorRequestUnusable(found="the value is not base64") from None
            if len(content) > INLINE_LIMIT + SEALING:
                raise OperatorRequestUnusable(found=f"the value has {len(content)} bytes and 1 MiB is taken")
            return content
    raise OperatorRequestUnusable(found='value must be {"b64": text}')
