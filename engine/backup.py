"""A backup of the execution state, and its way back into an empty store (run.journal.d1-backup).

A folder: `tables/<table>.jsonl`, a row a line; `objects.jsonl`, the frontier: every marker and part of the corpus, and
every blob that a row names; `backup.json`, written last, with project, schema and identity. Contents of a bucket are
not copied: nothing rewinds a bucket, so a restore looks whether what the frontier names still stands there.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from engine.clock import instant
from engine.dump import fill, lines, plain, rows, tables, write_lines
from engine.errors import (
    BackupUnusable,
    CapabilityUnwired,
    ExecutionRecoveryMismatch,
    ExecutionSchemaIncompatible,
    StorageUnusable,
    StoreInUse,
)
from engine.frontier import frontier as frontier_of
from engine.frontier import missing
from engine.sql import SCHEMA_VERSION, TABLES, call, schema
from engine.storage import RESTORING, initialize, is_empty, preflight

if TYPE_CHECKING:
    from pathlib import Path

    from engine.frontier import Frontier
    from engine.ports import Row
    from engine.profile import Profile

FORMAT: Final = 1
HEADER: Final = "backup.json"
FRONTIER: Final = "objects.jsonl"
TABLES_FOLDER: Final = "tables"

SHOWN: Final = 10
"""Missing objects that a refusal names."""


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup holds: rows by table, and how many objects and blobs its frontier names."""

    rows: dict[str, int]
    objects: int
    blobs: int


def backup(profile: Profile, folder: Path, *, project: str) -> Backup:
    """Write a backup of `profile` into the new or empty `folder`, while no writer is at work.

    Raise `StoreInUse` where an engine is live or one was opened meanwhile, `CapabilityUnwired` where recorded work is
    not kept in the database, `StorageUnusable` where the folder takes no more, and what a preflight finds.
    """
    preflight(profile, project=project)
    _require_whole(profile)
    try:
        return _written(profile, folder, project=project)
    except OSError as refusal:
        place = refusal.filename if isinstance(refusal.filename, str) else folder
        raise StorageUnusable(place=str(place), reason=refusal.strerror or str(refusal)).advising(
            "make room or choose another folder, and take the backup anew: this one is not whole"
        ) from refusal


def restore(profile: Profile, folder: Path, *, project: str) -> Backup:
    """Bring the backup in `folder` into an empty store, beside the objects that its frontier names.

    One that was interrupted is finished by calling it again with the same backup. Raise `BackupUnusable`,
    `ExecutionSchemaIncompatible`, or `ExecutionRecoveryMismatch` naming what of the frontier is missing; then nothing
    is written.
    """
    _require_whole(profile)
    header = _header(folder, project)
    name = _digest(folder / HEADER)
    _require_empty(profile, name)
    frontier = [json.loads(line) for line in lines(folder / FRONTIER)]
    if gone := missing(profile, frontier):
        shown = ", ".join(gone[:SHOWN]) + (f" and {len(gone) - SHOWN} more" if len(gone) > SHOWN else "")
        raise ExecutionRecoveryMismatch(found=f"the backup goes with objects that are not there: {shown}").advising(
            "bring them back from a copy of the corpus, and restore again"
        )
    profile.database.run(*schema(*profile.tables), call("set_meta", name=RESTORING, value=name))
    for table in tables(profile.tables):
        if table.name != "meta":
            fill(profile.database, table, _file(folder, table.name))
    initialize(profile, project=project)  # a generation of its own: the database that was is not used beside this one
    profile.database.run(call("forget_meta", name=RESTORING))
    return _summary(header["rows"], frontier)


def _written(profile: Profile, folder: Path, *, project: str) -> Backup:
    if folder.exists() and any(folder.iterdir()):
        raise BackupUnusable(folder=str(folder), found="it is not empty")
    quiet = _quiet(profile)
    (folder / TABLES_FOLDER).mkdir(parents=True, exist_ok=True)
    counts = {}
    for table in tables(profile.tables):
        counts[table.name] = write_lines(_file(folder, table.name), map(plain, rows(profile.database, table)))
    frontier = frontier_of(profile)
    write_lines(folder / FRONTIER, frontier)
    if _quiet(profile) != quiet:
        raise StoreInUse(holder="one that was opened meanwhile", until_at=profile.database.now())
    header = {
        "format": FORMAT, "profile": profile.name, "project": project, "schema": SCHEMA_VERSION, "rows": counts,
        "taken_at": instant(profile.database.now()), "identity": dict(profile.database.run(call("read_meta"))[0]),
        "digests": {path.relative_to(folder).as_posix(): _digest(path) for path in sorted(folder.rglob("*.jsonl"))},
    }  # fmt: skip
    (folder / HEADER).write_text(json.dumps(header, indent=1) + "\n", encoding="utf-8")
    return _summary(counts, frontier)


def _require_whole(profile: Profile) -> None:
    if not set(TABLES) <= set(profile.tables):
        raise CapabilityUnwired(capability="backup", profile=profile.name)


def _require_empty(profile: Profile, name: str) -> None:
    if is_empty(profile.database):
        return
    present = {table for (table,) in profile.database.run(call("list_tables"))[0]}
    meta: dict[str, str] = dict(profile.database.run(call("read_meta"))[0]) if "meta" in present else {}
    if meta.get(RESTORING) != name:
        found = "a backup is restored into an empty store only, and this one is not"
        raise ExecutionRecoveryMismatch(found=found).advising("what is here stands: name a database that holds nothing")


def _quiet(profile: Profile) -> list[Row]:
    """Every holder's row, none of them live. Raise `StoreInUse`."""
    [holders] = [table for table in tables(profile.tables) if table.name == "holders"]
    found, now = list(rows(profile.database, holders)), profile.database.now()
    for row in found:
        holder = dict(zip(holders.columns, row, strict=True))
        if holder["exited_at"] is None and holder["expires_at"] > now:
            raise StoreInUse(holder=holder["id"], until_at=holder["expires_at"])
    return found


def _header(folder: Path, project: str) -> dict[str, Any]:
    """What the backup says of itself, its files looked over."""
    try:
        header: dict[str, Any] = json.loads((folder / HEADER).read_bytes())
    except (OSError, ValueError) as cause:
        raise BackupUnusable(folder=str(folder), found=f"{HEADER} is missing or damaged, so it is not whole") from cause
    if header.get("format") != FORMAT:
        raise BackupUnusable(folder=str(folder), found=f"it is of format {header.get('format')}, not {FORMAT}")
    if header["schema"] != SCHEMA_VERSION:
        raise ExecutionSchemaIncompatible(found=str(header["schema"]), supported=str(SCHEMA_VERSION))
    if header["project"] != project:
        found = f"the backup is of project {header['project']!r}, not {project!r}"
        raise ExecutionRecoveryMismatch(found=found).advising("name another folder, or correct the manifest's name")
    for name, digest in header["digests"].items():
        if not (folder / name).is_file() or _digest(folder / name) != digest:
            raise BackupUnusable(folder=str(folder), found=f"{name} is missing or was changed")
    return header


def _summary(counts: dict[str, int], frontier: Frontier) -> Backup:
    blobs, objects = sum("blob" in entry for entry in frontier), {entry.get("object") for entry in frontier} - {None}
    return Backup({name: count for name, count in counts.items() if count}, len(objects), blobs)


def _file(folder: Path, table: str) -> Path:
    return folder / TABLES_FOLDER / f"{table}.jsonl"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
