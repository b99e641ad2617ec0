"""Looking a whole store over: everything that is referenced must be there, whole. Nothing is changed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.corpus import layout
from engine.corpus.marker import Marker, find
from engine.corpus.timeline import listed
from engine.errors import BlobMissing, ContextfulError, StorageFailure, StorageUnusable
from engine.owners import Owners
from engine.sql import call
from engine.storage import is_empty, preflight

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.clock import Chance
    from engine.ports import Rows
    from engine.profile import Profile


@dataclass(slots=True)
class Findings:
    """What a check has looked at, and every problem it found."""

    problems: list[str] = field(default_factory=list)
    tables: int = 0
    commits: int = 0
    parts: int = 0
    blobs: int = 0


def check(profile: Profile, *, project: str, chance: Chance) -> Findings:
    """Check profile, schema, project, the blobs unfinished work references, every part that a marker names.

    The newest commit of each table that the catalog knows must be there too.
    """
    found = Findings()
    cached: Rows = []
    if _state(profile, project, found):
        _blobs(profile, chance, found)
        cached = _cached(profile)  # before the corpus: what lands meanwhile is there alone
    tables = listed(profile.objects.list(""))
    for table, names in tables.items():
        found.tables += 1
        _commits(profile, table, names, found)
    for table, seq, commit_id in cached:
        if lost := _lost(profile, table, seq, commit_id, names=tables.get(table, [])):
            found.problems.append(lost)
    return found


def _state(profile: Profile, project: str, found: Findings) -> bool:
    try:
        if is_empty(profile.database) and not any(True for _ in profile.objects.list("")):
            return False  # nobody has used it yet, and an empty store lacks nothing
        preflight(profile, project=project)
    except StorageFailure as failure:
        found.problems.append(f"{type(failure).__name__}: {failure}")
        return False
    return True


def _blobs(profile: Profile, chance: Chance, found: Findings) -> None:
    for owner in Owners(profile.database, profile.journal, chance).all():
        for entry in profile.journal.entries(owner.execution_id):
            if entry.blob is None:
                continue
            found.blobs += 1
            try:
                profile.journal.value(entry)
            except BlobMissing as missing:
                found.problems.append(f"execution {owner.execution_id}, step {entry.key.step}: {missing}")


def _commits(profile: Profile, table: str, names: list[str], found: Findings) -> None:
    for seq, name in enumerate(names, start=1):
        found.commits += 1
        expected = layout.marker(table, seq)
        if name != expected:
            found.problems.append(f"{name}: {expected} should stand here; readers stop at the gap")
            return
        try:
            marker = Marker.from_bytes(profile.objects.get(name) or b"", name=name)
            found.problems.extend(_parts(profile, marker, found))
        except ContextfulError as failure:
            found.problems.append(str(failure))


def _lost(profile: Profile, table: str, seq: int, commit_id: str, *, names: list[str]) -> str | None:
    """What tells that commit number `seq` of `table`, the newest the catalog knows, is not in the corpus any more.

    A gap in `names` and a manifest that is none are told as that already; a table that is dropped meanwhile has lost
    nothing.
    """
    if names and names[-1] > layout.marker(table, seq):
        return None
    try:
        standing = find(profile.objects, table, seq)
    except StorageUnusable:
        return None
    if standing and standing.by.commit_id == commit_id:
        return None
    if not any(row[:3] == (table, seq, commit_id) for row in _cached(profile)):
        return None
    if standing:
        return _replaced(table, seq, commit_id, standing.by.commit_id)
    return _gone(table, seq, commit_id, left=len(names))


def _cached(profile: Profile) -> Rows:
    return profile.database.run(call("list_cursors"))[0]


def _gone(table: str, seq: int, commit_id: str, *, left: int) -> str:
    several = seq - left > 1
    lost = f"commits {left + 1} to {seq} (the last one {commit_id})" if several else f"commit {seq} ({commit_id})"
    goes_on = f"goes on from commit {left}" if left else "begins anew"
    return (
        f"{table}: {lost} in the catalog and not in the corpus: {layout.marker(table, seq)} is gone, no reader finds "
        f"the rows that were published there, and the next run {goes_on}; bring it back from a copy of the corpus "
        f"before that run and before a sweep, or give those rows up: contextful catalog rebuild"
    )


def _replaced(table: str, seq: int, commit_id: str, other: str) -> str:
    return (
        f"{table}: commit {seq} is {commit_id} in the catalog and {other} in the corpus: no reader finds the rows "
        f"of {commit_id}; restore state and corpus from one backup, or take the corpus as it is: "
        "contextful catalog rebuild"
    )


def _parts(profile: Profile, marker: Marker, found: Findings) -> Iterator[str]:
    for part in marker.parts:
        found.parts += 1
        content = profile.objects.get(part.name)
        if content is None:
            yield f"{part.name}: commit {marker.seq} names it and it is missing"
        elif len(content) != part.bytes:
            yield f"{part.name}: it has {len(content)} bytes, commit {marker.seq} recorded {part.bytes}"
        elif hashlib.sha256(content).hexdigest() != part.sha256:
            yield f"{part.name}: its bytes are not those commit {marker.seq} recorded (SHA-256 differs)"
