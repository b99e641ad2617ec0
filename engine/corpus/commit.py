"""The commit: rows and position become visible together, by one marker created where none stood.

Between reading the tail and creating the marker anything may happen: another run commits, this process is stopped and
its work taken over, the answer is lost. The marker's number decides all of it. Who finds its number taken reads on;
a marker of its own execution and ordinal is its own work, done by another attempt.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from engine.corpus import layout, parts
from engine.corpus.marker import Committer, Event, Marker, find, history
from engine.corpus.schema import Schema
from engine.errors import CommitContended, PositionOvertaken, StorageFailure, StorageUnusable
from engine.shapes import CursorKind, WriteMode, canonical_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.pipeline.stage import Stage
    from engine.ports import Objects

ATTEMPTS: Final = 100
"""Conflicts in a row before a commit gives up; local commits take turns and see next to none."""


ANYWHERE: Final = object()
"""The position that a commit goes on from where it does not matter."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a commit says of its table beside the rows.

    `higher` picks the later of two positions; a `monotonic` cursor needs it, so that a commit which was overtaken
    does not take the position back. One of another kind is refused where the table is no longer at `began`, the
    position its walk went on from. `position` None: the table has none.
    """

    table: str
    by: Committer
    cursor_kind: CursorKind
    position: Any = None
    mode: WriteMode = WriteMode.APPEND
    primary_key: tuple[str, ...] = ()
    higher: Callable[[Any, Any], Any] | None = None
    began: Any = ANYWHERE


@dataclass(frozen=True, slots=True)
class Committed:
    """The marker that stands, and whether this attempt created it: otherwise another had done the same work."""

    marker: Marker
    won: bool


def commit(
    objects: Objects, terms: Terms, *, stage: Stage, now: Callable[[], int], check_owner: Callable[[], None],
    hint: int = 0,
) -> Committed:  # fmt: skip
    """Publish what `stage` holds under `terms` (run.advance.commit-with-rows, run.own.one-commit-per-run).

    `hint` is the number of a marker known to be older than the execution's own. `check_owner` raises
    `ExecutionSuperseded` when the attempt lost its owner. Raise `StoreSchemaIncompatible` when the stage no longer
    merges with the table, `PositionOvertaken` where a position that has no order was moved by an engine on another
    state (run.advance.concurrency-by-kind). Whatever is raised before the marker stands removes the parts
    (run.own.stage-discard).
    """
    empty = terms.mode is WriteMode.REPLACE and stage.rows == 0
    event = Event.EMPTY_REPLACEMENT if empty else Event.RUN
    work = _Work(objects, terms, stage, event, now, check_owner)
    with objects.turn(terms.table):
        return work.published(hint)


def reposition(
    objects: Objects, terms: Terms, *, now: Callable[[], int], check_owner: Callable[[], None], hint: int = 0
) -> Committed:
    """Publish a new position, or None to start over, without touching a row."""
    work = _Work(objects, replace(terms, higher=None), None, Event.REPOSITION, now, check_owner)
    with objects.turn(terms.table):
        return work.published(hint)


@dataclass(frozen=True, slots=True)
class _Work:
    objects: Objects
    terms: Terms
    stage: Stage | None
    event: Event
    now: Callable[[], int]
    check_owner: Callable[[], None]

    def published(self, hint: int) -> Committed:
        """Try under the number behind the tail until a marker stands that does this work."""
        standing, tail = self._walk(hint)
        for _ in range(ATTEMPTS):
            if standing:
                return self._done(standing)
            if marker := self._attempt(tail):
                self._cache_schema(marker)
                return Committed(marker, won=True)
            standing, tail = self._walk(tail.seq if tail else 0)
        self._remove_parts()
        raise CommitContended(table=self.terms.table, attempts=ATTEMPTS)

    def _walk(self, hint: int) -> tuple[Marker | None, Marker | None]:
        """The marker that has done this work, if any, and the newest one, from number `hint` on."""
        done = newest = None
        for newest in history(self.objects, self.terms.table, after=max(hint - 1, 0)):
            done = newest if self.terms.by.same_work(newest) else done
        return (done, newest) if newest or hint <= 1 else self._walk(0)

    def _done(self, standing: Marker) -> Committed:
        """The work is published: by an earlier answer of ours, or by another attempt, whose rows then count."""
        ours = self.terms.by.wrote(standing)
        if not ours:
            self._remove_parts()
        self.check_owner()
        self._cache_schema(standing)
        return Committed(standing, won=ours)

    def _attempt(self, tail: Marker | None) -> Marker | None:
        """The marker behind `tail`, or None when its number went to another."""
        try:
            marker = self._proposed(tail)
            if self.stage:
                marker = replace(marker, parts=parts.written(self.objects, self.stage.parts, marker=marker,
                                                             table=self.terms.table))  # fmt: skip
            self.check_owner()
        except BaseException:  # whatever ends the attempt here, an interrupt included, no marker names its parts
            self._remove_parts()
            raise
        return marker if self._created(marker) else None

    def _proposed(self, tail: Marker | None) -> Marker:
        terms, stage = self.terms, self.stage
        schema, place = tail.schema if tail else Schema(), f"the rows of run {terms.by.run_id}"
        return Marker(
            seq=tail.seq + 1 if tail else 1,
            committed_at=max(self.now(), tail.committed_at + 1 if tail else 0),
            by=terms.by, event=self.event, mode=terms.mode, primary_key=terms.primary_key,
            position=self._position(tail), cursor_kind=terms.cursor_kind,
            schema=schema.merged(stage.schema.landed(), table=terms.table, place=place) if stage else schema,
            downgrades=stage.downgrades if stage else (),
        )  # fmt: skip

    def _position(self, tail: Marker | None) -> Any:
        ours, theirs = self.terms.position, tail.position if tail else None
        if self.terms.cursor_kind is not CursorKind.MONOTONIC:
            moved = self.terms.began not in (ANYWHERE, theirs)
            if tail and moved and tail.by.execution_id != self.terms.by.execution_id:
                raise PositionOvertaken(table=self.terms.table, run_id=tail.by.run_id, site_id=tail.by.site_id)
            return ours
        if self.terms.higher is None or theirs is None:
            return ours
        return theirs if ours is None else self.terms.higher(theirs, ours)

    def _created(self, marker: Marker) -> bool:
        """Create `marker`; after a refusal or a lost answer what stands there decides."""
        try:
            if self.objects.create(layout.marker(self.terms.table, marker.seq), marker.to_bytes()):
                return True
        except StorageFailure as failure:
            if self._stands(marker, failure) is None:
                if isinstance(failure, StorageUnusable):  # a definite no; any other answer may still turn into a yes
                    self._remove_parts()
                raise
        standing = find(self.objects, self.terms.table, marker.seq)
        return standing is not None and self.terms.by.wrote(standing)

    def _stands(self, marker: Marker, failure: StorageFailure) -> Marker | None:
        """What stands under the number of `marker`. Raise `failure` where nobody tells: it may stand, and may not."""
        try:
            return find(self.objects, self.terms.table, marker.seq)
        except StorageFailure:
            raise failure from None

    def _cache_schema(self, marker: Marker) -> None:
        name, content = layout.schema(self.terms.table), canonical_json(marker.schema.to_json()).encode()
        with suppress(StorageFailure):  # the marker stands, and the next commit repairs its cache
            if self.objects.get(name) != content:
                self.objects.put(name, content)

    def _remove_parts(self) -> None:
        if self.stage:
            with suppress(StorageFailure):  # what stays is named by no marker; a sweep takes it
                self.objects.delete(parts.names(self.stage.parts, by=self.terms.by, table=self.terms.table))
