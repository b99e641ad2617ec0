"""What machine state goes with and does not hold itself: the objects of the corpus, and the blobs that rows name."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.corpus import layout
from engine.corpus.marker import history
from engine.dump import PAGE, Table, rows, tables
from engine.errors import BlobMissing
from engine.shapes import BlobRef, Entry, EntryKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.profile import Profile

Frontier = list[dict[str, Any]]


def frontier(profile: Profile) -> Frontier:
    """What each table has published, and every blob kept in the bucket."""
    return [*_objects(profile), *_blobs(profile)]


def missing(profile: Profile, frontier: Frontier) -> list[str]:
    """What of `frontier` does not stand any more. An object or a marker more than it names is none of its concern."""
    return [*_missing_objects(profile, frontier), *_missing_blobs(profile, frontier)]


def _objects(profile: Profile) -> Iterator[dict[str, Any]]:
    """Every marker and every part that one names; a table's newest marker by its digest also, as it ends the rest.

    Left out is what may go on its own: the run history, which folds its objects, caches, and parts nobody published.
    """
    names = {layout.table_of(name) for name in profile.objects.list("")}
    for table in sorted(filter(layout.usable, names)):
        newest: str | None = None
        for marker in history(profile.objects, table):
            newest = layout.marker(table, marker.seq)
            yield {"object": newest}
            yield from ({"object": part.name} for part in marker.parts)
        if newest and (content := profile.objects.get(newest)):
            yield {"object": newest, "sha256": hashlib.sha256(content).hexdigest()}


def _blobs(profile: Profile) -> Iterator[dict[str, Any]]:
    """Every blob whose row stands and whose content is not in the database itself."""
    named = {table.name: table for table in tables(profile.tables)}
    kept = {row[-1] for row in rows(profile.database, _digests(named["blob_contents"]))}
    used = {row[-1] for name in ("journal", "awakeables") for row in rows(profile.database, _digests(named[name]))}
    for digest, size, _, doomed_at in rows(profile.database, named["blobs"]):
        if doomed_at is None and digest in used - kept:
            yield {"blob": digest, "bytes": size}


def _digests(table: Table) -> Table:
    return replace(table, columns=tuple(dict.fromkeys((*table.key, "digest"))), page=PAGE)


def _missing_objects(profile: Profile, frontier: Frontier) -> Iterator[str]:
    present = set(profile.objects.list(""))
    for entry in frontier:
        if "object" not in entry:
            continue
        if (name := entry["object"]) not in present:
            yield name
        elif "sha256" in entry and hashlib.sha256(profile.objects.get(name) or b"").hexdigest() != entry["sha256"]:
            yield f"{name} (another content stands there)"


def _missing_blobs(profile: Profile, frontier: Frontier) -> Iterator[str]:
    for entry in frontier:
        if "blob" not in entry:
            continue
        reference = BlobRef(entry["blob"], entry["bytes"])
        try:
            profile.journal.value(Entry(EntryKey("", "", ""), None, None, 0, None, None, reference))
        except BlobMissing:
            yield f"the blob {reference.sha256}"
