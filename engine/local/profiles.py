"""The profiles of one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.awakeables import SqlAwakeables
from engine.guards.admission import SqlAdmission
from engine.local.blobs import SqliteBlobs
from engine.local.folder import FolderObjects
from engine.local.sqlite import SqliteDatabase
from engine.profile import COOPERATIVE, Profile
from engine.sealed import sealed_journal, sealed_objects
from engine.sql import APART, TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from engine.clock import Clock

CAPABILITIES: Final = frozenset({"journal", "blobs", "awakeables", "owners", "corpus", "outbox", COOPERATIVE})


def sqlite(root: Path, *, clock: Clock, environ: Mapping[str, str]) -> Profile:
    """Open the default profile: machine state in `state.sqlite`, rows in the folder `corpus`."""
    database = SqliteDatabase(root / "state.sqlite", clock=clock)
    journal = sealed_journal(database, SqliteBlobs(database), environ)
    return Profile(
        name="sqlite",
        database=database,
        journal=journal,
        admission=SqlAdmission(database, journal),
        awakeables=SqlAwakeables(database, journal),
        objects=sealed_objects(FolderObjects(root / "corpus"), environ, opened=root / "opened"),
        scratch=root / "staged",
        capabilities=CAPABILITIES,
        tables=TABLES,
        close=database.close,
    )


def file(root: Path, *, clock: Clock, environ: Mapping[str, str]) -> Profile:
    """Open the profile of plain files: owners and runs in `catalog.sqlite`, recorded work in folders beside it."""
    # Imported here, not above: the default profile keeps no tree.
    from engine.local.tree.admission import TreeAdmission  # noqa: PLC0415
    from engine.local.tree.awakeables import TreeAwakeables  # noqa: PLC0415
    from engine.local.tree.blobs import TreeBlobs  # noqa: PLC0415
    from engine.local.tree.journal import TreeJournal  # noqa: PLC0415
    from engine.local.tree.tree import Tree  # noqa: PLC0415

    database = SqliteDatabase(root / "catalog.sqlite", clock=clock)
    tree = Tree(root)
    journal = TreeJournal(database, tree, TreeBlobs(tree, clock))
    return Profile(
        name="file",
        database=database,
        journal=journal,
        admission=TreeAdmission(database, journal, tree),
        awakeables=TreeAwakeables(tree, journal),
        objects=sealed_objects(FolderObjects(root / "corpus"), environ, opened=root / "opened"),
        scratch=root / "staged",
        capabilities=CAPABILITIES,
        tables=APART,
        close=database.close,
    )
