"""The clocks of a pull: whether they have an order at all, and which rows they admit."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from engine import cursors, lateness
from engine.errors import CursorPositionUnorderable, StoreSchemaIncompatible
from engine.pipeline.columns import UNDECLARED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.cursors import Admission
    from engine.pipeline.chunks import Window
    from engine.pipeline.declaration import Table
    from engine.pipeline.shape import Shaped


@contextmanager
def refusing_mixtures(table: Table) -> Iterator[None]:
    """Let a watermark's column that mixes types fail as one without an order (run.advance.unorderable-position)."""
    try:
        yield
    except StoreSchemaIncompatible as mixture:
        if mixture.column != table.incremental or mixture.standing == UNDECLARED:
            raise
        found = f"{mixture.found} beside {mixture.standing}"
        raise _unorderable(table, found=found, place=mixture.place) from mixture


def judged(
    shaped: Shaped, *, table: Table, floor: Any, frontier: Any, place: str, window: Window | None = None
) -> Admission | None:
    """Which rows are at or after the floor (run.advance.inclusive-boundary), or in the `window` of a chunk.

    None without a watermark.

    Raise `CursorPositionUnorderable` for clocks that have no order among themselves, beside the floor, or beside the
    walk's `frontier`: before the pull is recorded, or every replay would stumble over it again. Raise
    `LatenessUnmeasurable` for clocks that the table's window cannot be taken from.
    """
    clock, batch = table.incremental, shaped.batch
    if clock is None or batch.num_rows == 0:
        return None
    if clock not in batch.schema.names:
        raise _unorderable(table, found="no value in any row", place=place)
    try:
        clocks = batch.column(clock).to_pylist()
    except OverflowError:  # Arrow's instants go further than the calendar does
        raise _unorderable(table, found="an instant before the year 1 or after 9999", place=place) from None
    if shaped.schema[clock].type == "json":
        nested = next(value for value in clocks if value is not None)
        raise _unorderable(table, found=f"the nested value {cursors.shown(nested)}", place=place)
    if window is None:
        verdict = cursors.admit(clocks, floor=floor, table=table.name, field=clock, place=place)
    else:
        verdict = window.admit(clocks, table=table.name, field=clock, place=place)
    if table.allowed_lateness_ms:
        lateness.refuse_unmeasurable(verdict.highest, table=table.name, field=clock, place=place)
    if not cursors.comparable(frontier, verdict.highest):
        found = f"{cursors.shown(verdict.highest)} after {cursors.shown(frontier)}"
        raise _unorderable(table, found=found, place=place)
    return verdict


def _unorderable(table: Table, *, found: str, place: str) -> CursorPositionUnorderable:
    return CursorPositionUnorderable(table=table.name, field=str(table.incremental), found=found, place=place)
