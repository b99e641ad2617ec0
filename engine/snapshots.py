"""Numbered snapshots of the manifest: what was applied, by whom and when.

The content is the declaration as it resolves, without folders and secret values, so that a comment or the order of keys
makes no new snapshot and the same manifest in another folder is the same. Snapshots are machine state: nothing rebuilds
them from the corpus.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engine.errors import ManifestSnapshotSuperseded, Refused
from engine.shapes import canonical_json
from engine.sql import call

if TYPE_CHECKING:
    from engine.pipeline.declaration import Manifest
    from engine.ports import Database
    from engine.secrets import SecretGuard

_OF_A_MACHINE: Final = ("path", "root", "site_id", "site_id_env", "secret_names")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A manifest as it was applied: `number` counts from 1."""

    number: int
    content: str
    applied_at: int
    applied_by: str

    @property
    def tables(self) -> dict[str, Any]:
        """The declaration of each table, by name."""
        pipelines = json.loads(self.content)["pipelines"]
        return {table["name"]: table for pipeline in pipelines for table in pipeline["tables"]}


@dataclass(frozen=True, slots=True)
class Change:
    """What one table is in the newer of two snapshots.

    `added`, `removed`, `changed` (another content hash: its rows are asked for or land in another way) or `adjusted`
    (something beside it, such as its retry).
    """

    table: str
    change: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Applied:
    """What an apply came to: the snapshot that stands, and what it changed; nothing where it stood before."""

    snapshot: Snapshot
    changes: tuple[Change, ...]
    fresh: bool


def apply(database: Database, manifest: Manifest, *, by: str, guard: SecretGuard) -> Applied:
    """Make `manifest` the current snapshot, numbered one above the one that stood.

    Applying what already stands changes nothing. Raise `ManifestSnapshotSuperseded` where another operator applied
    another manifest in the same moment: of two, one wins.
    """
    content = _content(manifest, guard)
    standing = current(database)
    if standing is not None and standing.content == content:
        return Applied(standing, (), fresh=False)
    number = standing.number + 1 if standing else 1
    try:
        ((applied_at,),) = database.run(call("add_snapshot", number=number, content=content, applied_by=by))[0]
    except Refused as refusal:
        return _lost(database, content, number, refusal)
    applied = Snapshot(number, content, applied_at, by)
    return Applied(applied, changes(standing, applied), fresh=True)


def current(database: Database) -> Snapshot | None:
    """The snapshot that stands; None where nothing was ever applied."""
    rows = database.run(call("current_snapshot"))[0]
    return Snapshot(*rows[0]) if rows else None


def changes(before: Snapshot | None, after: Snapshot) -> tuple[Change, ...]:
    """What differs between two snapshots, table by table."""
    old, new = before.tables if before else {}, after.tables
    names = (*new, *(name for name in old if name not in new))
    found = (_change(name, old.get(name), new.get(name)) for name in names)
    return tuple(change for change in found if change is not None)


def _change(name: str, old: dict[str, Any] | None, new: dict[str, Any] | None) -> Change | None:
    if old == new:
        return None
    before, after = (declared["content_hash"] if declared else None for declared in (old, new))
    if old is None or new is None:
        return Change(name, "added" if old is None else "removed", before, after)
    return Change(name, "adjusted" if before == after else "changed", before, after)


def _lost(database: Database, content: str, number: int, refusal: Refused) -> Applied:
    """The other operator's snapshot stands under our number: the same as ours, or a reason to look again."""
    newer = current(database)
    if newer is None or newer.number < number:
        raise refusal
    if newer.content == content:
        return Applied(newer, (), fresh=False)
    raise ManifestSnapshotSuperseded(
        number=newer.number, standing=number - 1, by=newer.applied_by, applied_at=newer.applied_at
    )


def _content(manifest: Manifest, guard: SecretGuard) -> str:
    declared = {name: value for name, value in asdict(manifest).items() if name not in _OF_A_MACHINE}
    content, _ = guard.value(_plain(declared))
    return canonical_json(content)


def _plain(value: Any) -> Any:
    """The declaration as JSON values. What is absent is left out, so that a key of a later release changes nothing."""
    if isinstance(value, dict):
        present = {key: inner for key, inner in value.items() if inner is not None and not isinstance(inner, Path)}
        return {key: _plain(inner) for key, inner in present.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return sorted(value) if isinstance(value, frozenset) else value
