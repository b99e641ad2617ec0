"""Entries and waits as file contents: one line of JSON that describes them, then the recorded bytes, if any."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from engine.errors import StorageUnusable
from engine.shapes import Awakeable, AwakeableState, BlobRef, Entry, EntryKey, canonical_json

if TYPE_CHECKING:
    from pathlib import Path


_MARKS: Final = ("claim", "admitted_at", "doubts", "receipt", "destination")
"""What evidence changes of an entry besides its value, which it has none of before."""


@dataclass(frozen=True, slots=True)
class Before:
    """What an entry is until the audit row of the `evidence` for the guard `token` stands, which then settles it."""

    entry: Entry
    token: str
    evidence: str


def entry_content(entry: Entry, *, before: Before | None = None) -> bytes:
    """Return the file of `entry`; `before` it counts, an audit row must stand."""
    head: dict[str, Any] = {
        "step": entry.key.step,
        "input": entry.key.input,
        "run_id": entry.run_id,
        "claim": entry.claim,
        "attempts": entry.attempts,
        "next_attempt_at": entry.next_attempt_at,
        "inline": None if entry.value is None else len(entry.value),
        "blob": [entry.blob.sha256, entry.blob.bytes] if entry.blob else None,
        "admitted_at": entry.admitted_at,
        "doubts": entry.doubts,
        "receipt": entry.receipt,
        "destination": entry.destination,
    }
    if before:
        marks = {name: getattr(before.entry, name) for name in _MARKS}
        head["before"] = {"marks": marks, "token": before.token, "evidence": before.evidence}
    return _line(head) + (entry.value or b"")


def entry_of(content: bytes, *, execution_id: str, path: Path) -> tuple[Entry, Before | None] | None:
    """Return the entry a file holds, and what it is before the audit row that it waits for.

    None for an empty file: only a first claim is not synced, and a loss of power may leave it so. Raise
    `StorageUnusable` for anything else that is no whole entry, because taking it for unclaimed would repeat an effect.
    """
    if not content:
        return None
    head, value = _parted(content, path)
    if head["inline"] not in {None, len(value)}:
        raise StorageUnusable(place=str(path), reason=f"holds {len(value)} of {head['inline']} recorded bytes")
    entry = Entry(
        EntryKey(execution_id, head["step"], head["input"]),
        head["claim"],
        head["run_id"],
        head["attempts"],
        head["next_attempt_at"],
        None if head["inline"] is None else value,
        BlobRef(*head["blob"]) if head["blob"] else None,
        head["admitted_at"],
        head["doubts"],
        head["receipt"],
        # A file of the schema before has none.
        head.get("destination"),
    )
    if "before" not in head:
        return entry, None
    told = head["before"]
    return entry, Before(replace(entry, value=None, blob=None, **told["marks"]), told["token"], told["evidence"])


def referenced(head: bytes, *, path: Path) -> str | None:
    """Return the digest of the blob that an entry's first line names; none for a claim that a loss of power took."""
    if not head:
        return None
    blob = _parted(head, path)[0]["blob"]
    return blob[0] if blob else None


def pull_number(head: bytes, *, path: Path) -> int | None:
    """Return which pull an entry's first line says it is of, None where it is no pull's."""
    step = _parted(head, path)[0]["step"] if head else ""
    return int(step.removeprefix("pull:")) if step.startswith("pull:") else None


def awakeable_content(awakeable: Awakeable) -> bytes:
    """Return the file of `awakeable`."""
    names = ("token", "execution_id", "step", "created_at", "deadline", "state", "payload_sha256", "subject")
    return _line({name: getattr(awakeable, name) for name in names})


def awakeable_of(content: bytes, *, path: Path) -> Awakeable:
    """Return the wait a file holds. Raise `StorageUnusable` where it holds none."""
    fields, _ = _parted(content, path)
    return Awakeable(**fields | {"state": AwakeableState(fields["state"])})


def _line(head: dict[str, Any]) -> bytes:
    return canonical_json(head).encode("utf-8", "surrogatepass") + b"\n"


def _parted(content: bytes, path: Path) -> tuple[dict[str, Any], bytes]:
    line, end, rest = content.partition(b"\n")
    try:
        head: dict[str, Any] = json.loads(line.decode("utf-8", "surrogatepass") if end else "")
    except ValueError as damage:
        raise StorageUnusable(place=str(path), reason="is damaged: it begins with no whole line of JSON") from damage
    return head, rest
