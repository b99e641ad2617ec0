"""When a run publishes what it has staged before its walk is over.

A checkpoint is decided once a pull is fetched and before it is staged, so the position it commits is one that the walk
has already gone on from. The decision is a function of recorded facts alone: whoever replays them decides alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from engine.cursors import rank
from engine.pipeline.declaration import HttpSource
from engine.shapes import CursorKind, WriteMode

if TYPE_CHECKING:
    from engine.pipeline.declaration import Table
    from engine.pipeline.source import Source

_LINKED: Final = frozenset({"next-url", "link-header"})


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes a run may stage since its last commit, and how many of them make a checkpoint due."""

    staged: int = 1 << 30
    checkpoint: int = 1 << 29


def position_addressed(table: Table, source: Source) -> bool:
    """Whether each pull's position names a watermark, a page token or a stable offset (run.own.checkpoint-scope).

    A walk over links is not: the page behind a link is what it is today. Nor is a replacement, which is whole or
    nothing, a snapshot, whose position counts only once it is complete, and what is not journaled, since its positions
    cannot name the content.
    """
    if table.write_mode is WriteMode.REPLACE or source.cursor_kind is CursorKind.SNAPSHOT_ID or not source.journaled:
        return False
    if isinstance(table.source, HttpSource):
        return table.source.paginate is not None and table.source.paginate.by not in _LINKED
    return True


def due(limits: Limits, *, staged: int, following: int, frontier: Any = None, lowest: Any = None) -> bool:
    """Whether `staged` bytes are to be committed before a pull of `following` bytes joins them.

    They are where they reach the checkpoint's size (run.own.checkpoint-commit), or where the pull would carry them past
    what may be staged. `lowest` is the smallest clock of the pull and `frontier` the highest before it, both None
    without a watermark: a commit that would part the rows of one instant waits (run.own.checkpoint-frontier).
    """
    reached = staged >= limits.checkpoint or staged + following > limits.staged
    return staged > 0 and reached and _passes(lowest, frontier)


def _passes(lowest: Any, frontier: Any) -> bool:
    ours, theirs = rank(lowest), rank(frontier)
    return ours is None or theirs is None or ours > theirs
