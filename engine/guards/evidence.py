"""What an operator offers to release a guard: read, and tied to the guard or refused. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from engine.errors import ExecutionGuardEvidenceMismatch, ExecutionGuardHeld
from engine.guards.rules import Window

if TYPE_CHECKING:
    from engine.guards.guard import Standing

ABSENT: Final = "absent"
"""The receipt of a destination that never saw the key (rule G13 of the guard protocol)."""

LONGEST_NAME: Final = 200
NAME: Final = f"a name of 1 to {LONGEST_NAME} printable characters"
"""What an operator signs with."""

_FORMS: Final = re.compile(r"(?:idempotency:(?P<key>[^:\s]+)|receipt:(?P<receipted>[^:\s]+):(?P<id>\S(?:.*\S)?))")


class Proof(StrEnum):
    """What evidence proves, and so what becomes of the entry."""

    REPLAY = "replay"
    """The destination still knows the key: the entry may be sent again."""
    RECEIPT = "receipt"
    """The destination acted: the entry is settled and not sent again (rule G12)."""
    ABSENCE = "absence"
    """The destination never saw the key: the entry is as if it had not been sent (rule G13)."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence as it was given: its text, the key it names, what it proves, and the receipt's id where there is one."""

    text: str
    key: str
    proof: Proof
    receipt: str | None = None


def signature(operator: str) -> str | None:
    """The name `operator` as it goes on record, None where it is not `NAME`."""
    usable = operator.isprintable() and len(operator) <= LONGEST_NAME
    return (operator.strip() or None) if usable else None


def evidence(text: str, *, token: str) -> Evidence:
    """Read `text`. Raise `ExecutionGuardEvidenceMismatch` for a form nobody knows (run.callback-guard.evidence)."""
    # It goes on record, and from there to terminals.
    match = _FORMS.fullmatch(text) if text.isprintable() else None
    if match is None:
        found = f"{text!r} is neither idempotency:KEY nor receipt:KEY:ID nor receipt:KEY:absent"
        raise ExecutionGuardEvidenceMismatch(token=token, found=found)
    if match["key"]:
        return Evidence(text, match["key"], Proof.REPLAY)
    if match["id"] == ABSENT:
        return Evidence(text, match["receipted"], Proof.ABSENCE)
    if match["id"].casefold() == ABSENT:
        # It would settle for good what the destination never saw.
        found = f"{match['id']!r} is no receipt's id: for a key the destination never saw it is receipt:KEY:{ABSENT}"
        raise ExecutionGuardEvidenceMismatch(token=token, found=found)
    return Evidence(text, match["receipted"], Proof.RECEIPT, match["id"])


def judged(text: str, standing: Standing) -> Evidence:
    """The evidence `text`, if it releases the guard at this moment.

    Raise `ExecutionGuardHeld` while its callback may still be sending (run.callback-guard.live-holder),
    `ExecutionGuardEvidenceMismatch` where the evidence is not tied to it.
    """
    guard = standing.guard
    if not standing.ways.manual:
        raise ExecutionGuardHeld(token=guard.token, lease_until=standing.lease_until)
    given = evidence(text, token=guard.token)
    if given.key != guard.idempotency_key:
        found = f"it names the key {given.key!r}, and the guard's is {guard.idempotency_key}"
        raise ExecutionGuardEvidenceMismatch(token=guard.token, found=found)
    if given.proof is Proof.REPLAY and (problem := _uncovered(standing)):
        raise ExecutionGuardEvidenceMismatch(token=guard.token, found=problem)
    return given


def _uncovered(standing: Standing) -> str | None:
    match standing.guard.window(standing.now):
        case Window.COVERS:
            return None
        case Window.PASSED:
            return f"the window of {standing.guard.destination} has passed, so that its key proves nothing any more"
        case Window.NONE:
            return f"{standing.guard.destination} declares no window, so that its key proves nothing"
