"""Blobs in the state file: what a long sweep leaves to those who work meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.local import blobs as module
from engine.local.blobs import SqliteBlobs
from engine.local.sqlite import SqliteDatabase
from engine.sql import TABLES, call, schema
from tests.clocks import SettableClock

if TYPE_CHECKING:
    from pathlib import Path


class Watched(SqliteDatabase):
    """Tells how many statements each batch had, and how many contents were doomed behind it."""

    def __init__(self, path: Path, clock: SettableClock) -> None:
        super().__init__(path, clock=clock)
        self.batches: list[tuple[int, int]] = []

    def run(self, *calls: Any) -> Any:
        answer = super().run(*calls)
        self.batches.append((len(calls), len(super().run(call("doomed_blobs", portion=1000))[0])))
        return answer


@pytest.mark.clause("run.journal.blob-sweep")
def test_a_long_sweep_dooms_and_deletes_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for more than a portion: not for the file, and not for a content that is doomed."""
    clock = SettableClock()
    database = Watched(tmp_path / "state.sqlite", clock)
    database.run(*schema(*TABLES))
    blobs = SqliteBlobs(database)
    kept = sorted(blobs.put(b"%d" % number).sha256 for number in range(10))
    clock.advance(1)
    database.batches.clear()
    monkeypatch.setattr(module, "PORTION", 4)

    swept = blobs.sweep(older_than=clock.now())

    assert swept == kept
    assert list(map(max, zip(*database.batches, strict=True))) == [4, 4]
    assert database.run(call("unreferenced_blobs", older_than=clock.now())) == [[]]
    assert [database.run(call("read_content", digest=digest)) for digest in kept] == [[[]]] * 10
    database.close()
