"""A run's stage: what it has pulled and not yet committed, one file a pull, in local scratch.

The files hold the recorded bytes as they are and are never synced: the journal has them too, and a machine that loses
its scratch replays them. A stage knows the schema its rows add up to; the table's own learns of it at the commit.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from engine.corpus.schema import EXACT_IN_FLOAT, Schema
from engine.errors import StorageFailure, StorageUnusable, StoreSchemaIncompatible
from engine.pipeline.recording import decode, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from engine.pipeline.recording import PullMeta


@dataclass(frozen=True, slots=True)
class StagedPart:
    """One staged pull: its place in the run, the rows and bytes of its file."""

    ordinal: int
    path: Path
    rows: int
    size: int

    def load(self) -> pa.RecordBatch:
        """The rows, decoded from the file."""
        with _refusing(self.path):
            recorded = self.path.read_bytes()
        return rows_of(recorded)


class Stage:
    """The staged parts of run `run_id` for `table`, in a folder of its own below `root`.

    `standing` is the table's schema when the run began. What an earlier life of the run left is removed: its recorded
    pulls are staged again.
    """

    def __init__(self, root: Path, *, run_id: str, table: str, standing: Schema) -> None:
        self._folder = root / run_id
        self._table = table
        self._standing = standing
        self._own = Schema()
        self._parts: list[StagedPart] = []
        self._rows = self._size = 0
        self._downgrades: dict[str, dict[str, Any]] = {}
        self.discard()

    @property
    def parts(self) -> tuple[StagedPart, ...]:
        """What is staged, in the order of the pulls."""
        return tuple(self._parts)

    @property
    def schema(self) -> Schema:
        """What the staged rows add up to, the table's own columns aside."""
        return self._own

    @property
    def downgrades(self) -> tuple[dict[str, Any], ...]:
        """The columns that landed as something less than the source had, each once."""
        return tuple(self._downgrades.values())

    @property
    def rows(self) -> int:
        """Rows staged."""
        return self._rows

    @property
    def size(self) -> int:
        """Bytes staged."""
        return self._size

    def add(self, recorded: bytes) -> StagedPart:
        """Stage one recorded pull whole (run.own.backpressure); its rows need not stay in memory afterwards.

        Raise `StoreSchemaIncompatible` against the table's schema or the run's earlier pulls, `LateType` for a type
        declared too late: then nothing of the pull is staged (run.own.stage-schema).
        """
        batch, meta = decode(recorded)
        return self.add_decoded(recorded, rows=batch.num_rows, meta=meta, pull=len(self._parts))

    def add_decoded(self, recorded: bytes, *, rows: int, meta: PullMeta, pull: int) -> StagedPart:
        """`add` for whoever has decoded the pull already, the execution's number `pull`, which a refusal names."""
        place = f"{self._table}, pull {pull}"
        try:
            own = self._merged(meta, place=place)
        except StoreSchemaIncompatible as refusal:
            if row := _row_of(refusal.column, recorded, meta):
                raise StoreSchemaIncompatible(**refusal.facts | {"place": f"{place}, row {row}"}) from None
            raise
        ordinal = len(self._parts)
        part = StagedPart(ordinal, self._folder / f"{ordinal:06}.arrow", rows, len(recorded))
        self._write(part.path, recorded)
        self._own = own
        self._parts.append(part)
        self._rows, self._size = self._rows + part.rows, self._size + part.size
        for downgrade in meta.downgrades:
            self._downgrades.setdefault(downgrade.path, {"table": self._table} | asdict(downgrade))
        return part

    def landed(self, standing: Schema) -> None:
        """Start over empty: what was staged is committed, and `standing` is the table's schema now."""
        self._standing, self._own = standing, Schema()
        self._parts, self._downgrades = [], {}
        self._rows = self._size = 0
        self.discard()

    def discard(self) -> None:
        """Remove every staged file (run.own.stage-discard); to repeat it is harmless."""
        with _refusing(self._folder), suppress(FileNotFoundError):
            shutil.rmtree(self._folder)

    def leave(self) -> None:
        """`discard` as far as the disk lets: the run ends all the same, and whichever comes next removes what stays."""
        with suppress(StorageFailure):
            self.discard()

    def _merged(self, meta: PullMeta, *, place: str) -> Schema:
        self._own.refuse_late_types(meta.types, table=self._table)
        own = self._own.merged(meta.schema, table=self._table, place=place)
        self._standing.merged(own, table=self._table, place=place)
        return own

    def _write(self, path: Path, content: bytes) -> None:
        with _refusing(path):
            if not self._parts:
                path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def discard_ended(root: Path, *, ended: Callable[[str], bool]) -> None:
    """Remove what runs that have `ended` left below `root`: a crash leaves its staged parts (run.own.stage-discard)."""
    with suppress(FileNotFoundError):
        for folder in list(root.iterdir()):
            if ended(folder.name):
                shutil.rmtree(folder, ignore_errors=True)


def _row_of(column: str, recorded: bytes, meta: PullMeta) -> int | None:
    """The one-based row of a recorded pull that a refused `column` is about, None where rows of the page are left out.

    It is the first with a value; where an integer is larger than float64 holds, the first that is as large.
    """
    rows = rows_of(recorded)
    if meta.not_admitted or column not in rows.schema.names:
        return None
    largest = meta.schema[column].largest or 0
    telling = (
        number
        for number, value in enumerate(rows.column(column), start=1)
        if value.is_valid and (largest <= EXACT_IN_FLOAT or abs(value.as_py()) == largest)
    )
    return next(telling, None)


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as refusal:
        raise StorageUnusable(place=str(path), reason=refusal.strerror or str(refusal)) from refusal
