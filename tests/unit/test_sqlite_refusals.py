"""What a SQLite file that cannot be used is told with: a damaged one, one that is none, one nobody may write."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from engine.errors import StorageUnusable
from engine.local.sqlite import SqliteDatabase
from engine.ports import Call, Statement

if TYPE_CHECKING:
    from pathlib import Path


def call(text: str, *, reads: bool) -> Call:
    return Call(Statement("asked", text, (), reads=reads, durable=not reads), {})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database of some pages."""
    database = SqliteDatabase(tmp_path / "state.sqlite")
    database.run(call("CREATE TABLE t (text TEXT)", reads=False))
    database.run(*[call("INSERT INTO t VALUES (hex(zeroblob(2000)))", reads=False)] * 9)
    database.close()
    return tmp_path / "state.sqlite"


@pytest.mark.parametrize("begins", [0, 100, 4096], ids=["header", "schema", "page"])
def test_a_damaged_file_is_told_with_the_way_back(file: Path, begins: int) -> None:
    content = bytearray(file.read_bytes())
    content[begins:] = b"\xa5" * (len(content) - begins)
    file.write_bytes(content)

    with pytest.raises(StorageUnusable) as refusal:
        SqliteDatabase(file).run(call("SELECT count(text) FROM t WHERE text > ''", reads=True))

    assert refusal.value.place == str(file)
    assert "contextful storage restore" in str(refusal.value)
    assert "contextful catalog rebuild" in str(refusal.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_file_that_may_not_be_written_is_told_so(file: Path) -> None:
    file.chmod(0o400)
    file.parent.chmod(0o500)

    with pytest.raises(StorageUnusable, match="make it and its folder writable"):
        SqliteDatabase(file).run(call("DELETE FROM t", reads=False))


def test_a_folder_where_the_file_should_stand_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "state.sqlite").mkdir()

    with pytest.raises(StorageUnusable, match="unable to open database file; make it and its folder writable"):
        SqliteDatabase(tmp_path / "state.sqlite").run(call("SELECT 1", reads=True))
