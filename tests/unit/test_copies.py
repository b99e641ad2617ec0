"""Local copies of objects: what is pruned when a process opens a folder that others use."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from engine import copies
from engine.copies import IN_USE_S, Copies

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

OPENINGS = 400


def test_a_folder_is_opened_while_another_engine_writes_and_replaces_its_copies(tmp_path: Path) -> None:
    """400 openings beside a writer: a file gone between its listing and its reading ends nothing and leaks nothing."""
    other = Copies(tmp_path)
    done = threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        while not done.is_set():
            written += 1
            other.keep("table/part.parquet", f"etag{written % 7}", b"rows").unlink()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(OPENINGS):
            Copies(tmp_path)
    finally:
        done.set()
        writer.join()
    assert written > 0
    kept = Copies(tmp_path).keep("table/part.parquet", "etag", b"rows")
    assert Copies(tmp_path).find("table/part.parquet", "etag") == kept


def test_copies_are_pruned_from_the_one_asked_for_longest_ago_and_never_one_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four copies of 10 bytes and room for 15, the two oldest go; a third, in use, stays though it is too much."""
    kept = Copies(tmp_path)
    ages = {"oldest": 3 * IN_USE_S, "older": 2 * IN_USE_S, "in_use": IN_USE_S / 2, "new": 0}
    paths = {name: kept.keep(name, "etag", bytes(10)) for name in ages}
    for name, age in ages.items():
        os.utime(paths[name], (time.time() - age,) * 2)
    monkeypatch.setattr(copies, "KEPT_BYTES", 15)
    Copies(tmp_path)
    assert {name for name, path in paths.items() if path.exists()} == {"in_use", "new"}


def test_a_folder_that_nobody_has_made_is_no_error(tmp_path: Path) -> None:
    """A first engine finds nothing, and makes the folder with its first copy."""
    first = Copies(tmp_path / "copies")
    assert first.find("table/part.parquet", "etag") is None
    assert first.keep("table/part.parquet", "etag", b"rows").read_bytes() == b"rows"
