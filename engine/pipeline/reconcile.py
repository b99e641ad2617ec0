"""A table's place in the catalog, brought up to its newest marker: the marker is the truth, the catalog a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.corpus.marker import tail
from engine.errors import Refused
from engine.shapes import canonical_json
from engine.sql import call

if TYPE_CHECKING:
    from engine.corpus.marker import Marker
    from engine.host import Engine
    from engine.ports import Call


def reconciled(engine: Engine, table: str) -> Marker | None:
    """The table's newest marker, the catalog brought up to it (run.own.marker-reconciles).

    A crash between marker and catalog leaves the owner of committed rows pending; replaying it would land them again,
    so the final marker of its execution retires it first.
    """
    db = engine.profile.database
    rows = db.run(call("read_cursor", table_name=table))[0]
    cached = rows[0][1] if rows else 0
    newest = tail(engine.profile.objects, table, hint=cached)
    if newest is None or newest.seq <= cached:
        return newest
    owner = engine.owners.read(scope_of(table))
    if owner is not None and newest.by.final and owner.execution_id == newest.by.execution_id:
        try:
            engine.owners.withdraw(owner)
        except Refused:
            return newest  # its attempt is alive and about to retire itself
    db.run(caching(table, newest))
    return newest


def scope_of(table: str) -> str:
    """The owner scope of a live table."""
    return f"table:{table}"


def caching(table: str, marker: Marker) -> Call:
    """Return the statement that caches `marker` as the table's newest position."""
    return call(
        "cache_position",
        table_name=table,
        seq=marker.seq,
        commit_id=marker.by.commit_id,
        kind=marker.cursor_kind,
        position=None if marker.position is None else canonical_json(marker.position),
    )
