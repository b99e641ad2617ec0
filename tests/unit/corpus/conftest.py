"""A table's corpus on a local disk, with short words for what its tests do to it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from engine.corpus.commit import Committed, Terms, commit, reposition
from engine.corpus.marker import Committer, Marker, tail
from engine.corpus.read import Answer, ReadFace
from engine.corpus.schema import Column, Schema
from engine.local import folder
from engine.local.folder import FolderObjects
from engine.pipeline.columns import Downgrade
from engine.pipeline.recording import PullMeta, encode
from engine.pipeline.stage import Stage
from engine.shapes import CursorKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MINUTE = 60_000
Rows = list[dict[str, Any]]


@dataclass
class Corpus:
    """Table `t` below `root`; its clock stands where a test puts it."""

    root: Path
    now: int = 1_000_000
    table: str = "t"
    objects: FolderObjects = field(init=False)

    def __post_init__(self) -> None:
        self.objects = FolderObjects(self.root / "corpus")

    def recorded(self, rows: Rows, types: dict[str, str], *, untyped: tuple[str, ...] = (),
                 declared: dict[str, str] | None = None, downgraded: tuple[str, ...] = ()) -> bytes:  # fmt: skip
        """The bytes a journal holds of a pull of `rows`."""
        largest = {name: max((abs(row[name]) for row in rows if row.get(name) is not None), default=0)
                   for name, kind in types.items() if kind == "int64"}  # fmt: skip
        schema = Schema(tuple(Column(name, kind, largest.get(name)) for name, kind in types.items()))
        events = tuple(Downgrade(path=name, source="object", landed="json", reason="nested") for name in downgraded)
        meta = PullMeta(schema=replace(schema, untyped=untyped), types=declared or {}, downgrades=events)
        return encode(pa.RecordBatch.from_pylist(rows, schema=schema.arrow()), meta)

    def stage(self, run_id: str, *pulls: Rows, types: dict[str, str] | None = None) -> Stage:
        """A stage of run `run_id` holding one part a pull."""
        newest = tail(self.objects, self.table)
        standing = newest.schema if newest else Schema()
        stage = Stage(self.root / "staged", run_id=run_id, table=self.table, standing=standing)
        for rows in pulls:
            stage.add(self.recorded(rows, types or {"id": "int64", "v": "string"}))
        return stage

    def commit(self, stage: Stage, run_id: str, *, at: int | None = None, execution_id: str | None = None,
               check_owner: Callable[[], None] = lambda: None, **terms: Any) -> Committed:  # fmt: skip
        """Commit `stage` as run `run_id`, at the instant `at`."""
        self.now = self.now if at is None else at
        return commit(self.objects, self.terms(run_id, execution_id=execution_id, **terms), stage=stage,
                      now=lambda: self.now, check_owner=check_owner)  # fmt: skip

    def land(self, run_id: str, *pulls: Rows, types: dict[str, str] | None = None, **how: Any) -> Marker:
        """Stage and commit in one go."""
        return self.commit(self.stage(run_id, *pulls, types=types), run_id, **how).marker

    def reposition(self, run_id: str, position: Any) -> Marker:
        """Commit a position and no rows."""
        terms = self.terms(run_id, position=position)
        return reposition(self.objects, terms, now=lambda: self.now, check_owner=lambda: None).marker

    def terms(self, run_id: str, *, execution_id: str | None = None, **terms: Any) -> Terms:
        by = Committer(run_id, run_id, execution_id or f"x-{run_id}", "laptop")
        return replace(Terms(self.table, by, CursorKind.OPAQUE_TOKEN), **terms)

    def read(self, statement: str, **how: Any) -> Answer:
        return ReadFace(self.objects).read(statement, **how)

    def rows(self, columns: str = "id, v", **how: Any) -> list[tuple[Any, ...]]:
        return self.read(f"SELECT {columns} FROM {self.table} ORDER BY ALL", **how).rows

    @property
    def newest(self) -> Marker | None:
        return tail(self.objects, self.table)

    def names(self, prefix: str = "") -> list[str]:
        return list(self.objects.list(prefix))


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.setattr(folder, "PATIENCE_S", 0.02)  # a commit within a commit is a stopped holder of the turn
    return Corpus(tmp_path)
