"""A table's place in the catalog, brought up to its newest marker: the marker is the truth, the catalog a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.corpus.marker import find, history
from engine.errors import Refused
from engine.owners import Owner
from engine.shapes import canonical_json
from engine.sql import call

if TYPE_CHECKING:
    from engine.corpus.marker import Marker
    from engine.execution.held import Held
    from engine.host import Engine
    from engine.ports import Call


def reconciled(engine: Engine, table: str) -> Marker | None:
    """The table's newest marker, the catalog brought up to it (run.own.marker-reconciles).

    A crash between marker and catalog leaves the owner of committed rows pending; replaying it would land them again,
    so the final marker of its execution retires it first, and a checkpoint's collects the pulls it has landed.
    """
    db = engine.profile.database
    cursor, owners = db.run(call("read_cursor", table_name=table), call("read_owner", scope=scope_of(table)))
    cached = cursor[0][1] if cursor else 0
    owner = Owner(*owners[0]) if owners else None
    newest, own = _since(engine, table, cached, execution_id=owner.execution_id if owner else None)
    if newest is None or newest.seq <= cached:
        return newest
    if own is None or owner is None:
        db.run(caching(table, newest))
        return newest
    if own.by.final:
        try:
            engine.owners.withdraw(owner)
        except Refused:
            return newest  # its attempt is alive and about to retire itself
        engine.close_overtaken(owner.execution_id)
        db.run(caching(table, newest))
        return newest
    landed = {"below": own.by.pulls}
    db.run(caching(table, newest), *engine.profile.journal.pull_collection(owner.execution_id, **landed))
    engine.profile.journal.collect_pulls(owner.execution_id, **landed)
    return newest


def own_commits(engine: Engine, table: str, base: Marker | None, *, held: Held) -> list[Marker]:
    """The commits that the execution `held` has made so far, oldest first; `base` is the table's newest marker."""
    return commits_of(engine, table, base, execution_id=held.attempt.execution_id, opened_at=held.opened_at)


def commits_of(engine: Engine, table: str, base: Marker | None, *, execution_id: str, opened_at: int) -> list[Marker]:
    """The commits of an execution opened at `opened_at`, oldest first; `base` is the table's newest marker."""
    found, marker = [], base
    while marker is not None and marker.committed_at >= opened_at:
        if marker.by.execution_id == execution_id:
            found.append(marker)
        marker = find(engine.profile.objects, table, marker.seq - 1)
    return found[::-1]


def scope_of(table: str) -> str:
    """The owner scope of a live table."""
    return f"table:{table}"


def caching(table: str, marker: Marker) -> Call:
    """Return the statement that caches `marker` as the table's newest position."""
    return call("cache_position", **_cached(table, marker))


def caching_behind(table: str, marker: Marker) -> Call:
    """Return the statement that caches `marker` where all before it are cached.

    A commit of another scope's than the live table's must not hide the one of a live run that died on its way to
    retire its owner.
    """
    return call("cache_following", **_cached(table, marker))


def _since(engine: Engine, table: str, cached: int, *, execution_id: str | None) -> tuple[Marker | None, Marker | None]:
    """The table's newest marker and, of those the catalog has not cached, the newest of the execution.

    The markers before the cached one are not read, unless it is gone, as after the table was dropped.
    """
    newest = own = None
    for newest in history(engine.profile.objects, table, after=max(cached - 1, 0)):
        own = newest if newest.seq > cached and newest.by.execution_id == execution_id else own
    if newest is None and cached > 1:
        return _since(engine, table, 0, execution_id=execution_id)
    return newest, own


def _cached(table: str, marker: Marker) -> dict[str, Any]:
    return {
        "table_name": table,
        "seq": marker.seq,
        "commit_id": marker.by.commit_id,
        "kind": marker.cursor_kind,
        "position": None if marker.position is None else canonical_json(marker.position),
    }
