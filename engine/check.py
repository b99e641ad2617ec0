"""Looking a whole store over: everything that is referenced must be there, whole. Nothing is changed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.corpus import layout
from engine.corpus.marker import Marker
from engine.corpus.timeline import listed
from engine.errors import BlobMissing, ContextfulError, StorageFailure
from engine.owners import Owners
from engine.storage import is_empty, preflight

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.clock import Chance
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
    """Check profile, schema, project, the blobs unfinished work references, and every part that a marker names."""
    found = Findings()
    if _state(profile, project, found):
        _blobs(profile, chance, found)
    for table, names in listed(profile.objects.list("")).items():
        found.tables += 1
        _commits(profile, table, names, found)
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
