"""Dropping a table: its markers first, from the newest to the oldest, so that a crash leaves an older state whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.corpus import layout

if TYPE_CHECKING:
    from engine.ports import Objects


def drop(objects: Objects, table: str) -> int:
    """Delete everything of `table` and return how many commits it had; to repeat it after a crash is harmless."""
    markers = sorted(objects.list(layout.commits(table)), reverse=True)
    objects.delete(markers)
    objects.delete(list(objects.list(layout.parts(table))))
    objects.delete([layout.schema(table), layout.lock(table)])
    return len(markers)
