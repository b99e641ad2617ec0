"""Local copies of objects: what is pruned when a process opens a folder that others use."""

from __future__ import annotations

import errno
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from engine import copies
from engine.copies import IN_USE_S, Copies

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

OPENINGS = 400

THREADS, ROUNDS = 8, 30


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


def test_what_another_engine_pruned_first_makes_room_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ten copies, room for five, the other is quicker at the five oldest: the five youngest stay."""
    kept = Copies(tmp_path)
    paths = [kept.keep(f"part-{number}", "etag", bytes(10)) for number in range(10)]
    for number, path in enumerate(paths):
        os.utime(path, (time.time() - (20 - number) * IN_USE_S,) * 2)
    unlink = type(tmp_path).unlink

    def late(path: Path, *, missing_ok: bool = False) -> None:
        os.unlink(path)  # noqa: PTH108 - the other engine's, just before ours
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(copies, "KEPT_BYTES", 50)
    monkeypatch.setattr(type(tmp_path), "unlink", late)
    Copies(tmp_path)
    assert [path.exists() for path in paths] == [False] * 5 + [True] * 5


def test_a_folder_that_nobody_has_made_is_no_error(tmp_path: Path) -> None:
    """A first engine finds nothing, and makes the folder with its first copy."""
    first = Copies(tmp_path / "copies")
    assert first.find("table/part.parquet", "etag") is None
    assert first.keep("table/part.parquet", "etag", b"rows").read_bytes() == b"rows"


def test_threads_that_meet_a_folder_nobody_may_write_share_one_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8 threads keep a copy at once, 30 times over: each copy is there when all have theirs."""
    written = copies._written
    together = threading.Barrier(THREADS)

    def shut(path: Path, content: bytes) -> Path:
        if tmp_path in path.parents:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return written(path, content)

    def keep(kept: Copies, number: int) -> Path:
        together.wait(30)
        return kept.keep(f"part-{number}", "etag", b"rows")

    monkeypatch.setattr(copies, "_written", shut)
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(ROUNDS):
            kept = Copies(tmp_path / "copies")
            paths = list(pool.map(keep, [kept] * THREADS, range(THREADS)))
            assert [path.read_bytes() for path in paths] == [b"rows"] * THREADS
            assert [kept.find(f"part-{number}", "etag") for number in range(THREADS)] == paths
            assert kept._own
            kept._own.cleanup()
