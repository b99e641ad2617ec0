"""A table's markers as a reader asks for them: one listing tells which there are, and only those needed are fetched."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from engine.corpus import layout
from engine.corpus.fetch import AT_ONCE, contents
from engine.corpus.marker import Marker

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from engine.ports import Objects


class Gone(Exception):
    """A marker that was listed is gone: the table was dropped meanwhile."""


def listed(names: Iterable[str]) -> dict[str, list[str]]:
    """Of `names`, in order, those of markers, by table."""
    found: dict[str, list[str]] = {}
    for name in names:
        table = layout.table_of(name)
        if layout.usable(table) and name.startswith(layout.commits(table)):
            found.setdefault(table, []).append(name)
    return found


class Timeline:
    """The markers called `names`, oldest first, each fetched at most once. Raise `Gone` where one is there no more."""

    def __init__(self, objects: Objects, names: Sequence[str]) -> None:
        self._objects = objects
        self._names = names
        self._read: dict[str, Marker] = {}

    def at(self, index: int) -> Marker:
        """The one at `index`, from 0 on."""
        return self._markers(self._names[index : index + 1])[0]

    def until(self, as_of: int | None) -> int:
        """How many were committed by the instant `as_of`, inclusive: instants rise with the numbers, few are asked."""
        if as_of is None:
            return len(self._names)
        return bisect_right(range(len(self._names)), as_of, key=lambda index: self.at(index).committed_at)

    def visible(self, count: int) -> list[Marker]:
        """Of the first `count`, those whose rows the last one leaves visible.

        They are fetched from the newest back to one that replaces, in spans that double: of a table that each run
        replaces that is one marker, and of one that none does there is hardly a wait beyond that for the markers.
        """
        found: list[Marker] = []
        span = 1
        while len(found) < count and not (found and found[0].replaces):
            end = count - len(found)
            newer = self._markers(self._names[max(end - span, 0) : end])
            last = max((index for index, marker in enumerate(newer) if marker.replaces), default=0)
            found = newer[last:] + found
            span = max(2 * span, AT_ONCE)
        return found

    def _markers(self, names: Sequence[str]) -> list[Marker]:
        for name, content in contents(self._objects, [name for name in names if name not in self._read]).items():
            if content is None:
                raise Gone
            self._read[name] = Marker.from_bytes(content, name=name)
        return [self._read[name] for name in names]
