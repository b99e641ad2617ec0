"""The marker of a commit: one immutable object that publishes a run's rows and its new position together.

What a marker does not name was never committed; what it names is whole (run.advance.commit-with-rows). Readers of
this release skip fields they do not know, so that a later one may add some.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from engine.corpus import layout
from engine.corpus.schema import Schema
from engine.errors import CommitMissing, StorageUnusable
from engine.shapes import CursorKind, WriteMode, canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from engine.ports import Objects


class Event(StrEnum):
    """What a marker stands for."""

    RUN = "run"
    EMPTY_REPLACEMENT = "empty-replacement"
    REPOSITION = "reposition"


@dataclass(frozen=True, slots=True)
class Part:
    """One Parquet file of a commit: its object, its rows, its size and the SHA-256 (hex) of its bytes."""

    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Committer:
    """Whose commit it is: number `ordinal` of its execution, by the attempt `run_id`, under the name `commit_id`.

    The commit id names the folder of the parts: the run id, for a later checkpoint with its ordinal behind it. `final`
    tells that the execution is done with this commit, `pulls` how many of its pulls have landed with it and before;
    `site_id` goes into every row (run.record.writing-site).
    """

    run_id: str
    commit_id: str
    execution_id: str
    site_id: str
    ordinal: int = 0
    final: bool = True
    pulls: int = 0

    def wrote(self, marker: Marker) -> bool:
        """Whether `marker` is this very commit, as after a lost answer."""
        return marker.by.commit_id == self.commit_id and marker.by.run_id == self.run_id

    def same_work(self, marker: Marker) -> bool:
        """Whether `marker` publishes this commit's work, whichever attempt did it."""
        return (marker.by.execution_id, marker.by.ordinal) == (self.execution_id, self.ordinal)


@dataclass(frozen=True, slots=True)
class Marker:
    """Commit number `seq` of its table, at the instant `committed_at` (milliseconds)."""

    seq: int
    committed_at: int
    by: Committer
    event: Event
    mode: WriteMode
    primary_key: tuple[str, ...]
    position: Any
    cursor_kind: CursorKind
    schema: Schema
    parts: tuple[Part, ...] = ()
    downgrades: tuple[dict[str, Any], ...] = ()

    @property
    def rows(self) -> int:
        """Rows the commit published."""
        return sum(part.rows for part in self.parts)

    @property
    def size(self) -> int:
        """Bytes of its parts."""
        return sum(part.bytes for part in self.parts)

    @property
    def replaces(self) -> bool:
        """Whether it hides the rows of every commit before it."""
        return self.mode is WriteMode.REPLACE and self.event is not Event.REPOSITION

    def to_bytes(self) -> bytes:
        """Canonical JSON, equal whenever the markers are."""
        document = {"seq": self.seq, "committed_at": self.committed_at, "commit_id": self.by.commit_id,
                    "run_id": self.by.run_id, "execution_id": self.by.execution_id, "site_id": self.by.site_id,
                    "ordinal": self.by.ordinal, "final": self.by.final, "pulls": self.by.pulls, "event": self.event,
                    "mode": self.mode, "primary_key": self.primary_key, "position": self.position,
                    "cursor_kind": self.cursor_kind,
                    "schema": self.schema.to_json(), "parts": [_plain(part) for part in self.parts],
                    "downgrades": self.downgrades}  # fmt: skip
        return canonical_json(document).encode()

    @classmethod
    def from_bytes(cls, content: bytes, *, name: str) -> Marker:
        """The marker `to_bytes` wrote. Raise `StorageUnusable` naming the object `name` if it is none."""
        try:
            return _marker(json.loads(content))
        except (ValueError, KeyError, TypeError) as cause:
            raise StorageUnusable(place=name, reason=f"it is no commit manifest: {_wrong(cause)}").advising(
                "restore this object from a backup, or from a copy of the corpus: runs and reads of its table need it"
            ) from cause


HEAD: Final = 1
"""The seq of a table's first marker."""


def find(objects: Objects, table: str, seq: int) -> Marker | None:
    """Marker number `seq` of `table`, or None."""
    name = layout.marker(table, seq)
    content = objects.get(name)
    return None if content is None else Marker.from_bytes(content, name=name)


def history(objects: Objects, table: str, *, after: int = 0) -> Iterator[Marker]:
    """The markers of `table` in order, from number `after + 1` on, until one is absent."""
    seq = after + 1
    while marker := find(objects, table, seq):
        yield marker
        seq += 1


def tail(objects: Objects, table: str, *, hint: int = 0) -> Marker | None:
    """The newest marker of `table`, probed for from number `hint` on.

    A hint, such as the number the catalog caches, saves reading what is older; a wrong one, as after the table was
    dropped, costs a walk from the start.
    """
    newest = deque(history(objects, table, after=max(hint - 1, 0)), maxlen=1)
    if newest:
        return newest.pop()
    return tail(objects, table) if hint > HEAD else None


def require_whole(objects: Objects, table: str) -> list[str]:
    """The names of the markers of `table`, oldest first. Raise `CommitMissing` as `without_gap` does."""
    return without_gap(objects, table, objects.list(layout.commits(table)))


def without_gap(objects: Objects, table: str, listed: Iterable[str]) -> list[str]:
    """The markers of `table` that were `listed`, in order. Raise `CommitMissing` where one is gone and a later stands.

    Whoever stopped at the gap would publish the rows behind it, or leave them out, without a word. A listing need be no
    snapshot, and a folder's is none: of two created meanwhile it may name the later alone, so that a gap is looked at.
    """
    names: list[str] = []
    for name in listed:
        while name != (expected := layout.marker(table, len(names) + HEAD)):
            if objects.get(expected) is None:
                raise CommitMissing(table=table, missing=expected, later=name)
            names.append(expected)
        names.append(name)
    return names


def _wrong(cause: ValueError | KeyError | TypeError) -> str:
    """What a content that is no marker is instead."""
    if isinstance(cause, KeyError):
        return f"it has no {cause.args[0]}"
    if isinstance(cause, UnicodeDecodeError):
        return f"it is no UTF-8 at byte {cause.start}"
    if isinstance(cause, json.JSONDecodeError):
        return f"it is no JSON from character {cause.pos} on"
    return f"it is JSON of another shape ({cause})"


def _plain(part: Part) -> dict[str, Any]:
    return {"name": part.name, "rows": part.rows, "bytes": part.bytes, "sha256": part.sha256}


def _marker(document: dict[str, Any]) -> Marker:
    by = Committer(run_id=document["run_id"], commit_id=document["commit_id"], execution_id=document["execution_id"],
                   site_id=document["site_id"], ordinal=document["ordinal"], final=document["final"],
                   pulls=document.get("pulls", 0))  # fmt: skip
    return Marker(
        seq=document["seq"], committed_at=document["committed_at"], by=by, event=Event(document["event"]),
        mode=WriteMode(document["mode"]), primary_key=tuple(document["primary_key"]), position=document["position"],
        cursor_kind=CursorKind(document["cursor_kind"]), schema=Schema.from_json(document["schema"]),
        parts=tuple(Part(part["name"], part["rows"], part["bytes"], part["sha256"]) for part in document["parts"]),
        downgrades=tuple(document["downgrades"]),
    )  # fmt: skip
