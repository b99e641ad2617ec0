"""A database as a source, from the manifest to `contextful read`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Shell

MANIFEST = """\
[project]
name = "shop"
site_id = "laptop"

[[pipeline]]
id = "shop"

[pipeline.source]
kind = "sql"
dsn = "sqlite:///shop.db"
from = "orders"
batch = 2
meter = { limit = 100, every = "1m" }

[[pipeline.table]]
name = "orders"
primary_key = ["id"]
incremental = "at"
"""


@pytest.fixture
def orders(shell: Shell) -> Path:
    path = shell.folder / "shop.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, at DATETIME, price DECIMAL(9,2), doc JSON, raw BLOB)"
        )
        database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", [
            (number, f"2026-01-01 00:00:0{number}", "12.30", '{"a": [1, null]}', b"\xff\x00") for number in range(1, 6)
        ])  # fmt: skip
    shell.write("contextful.toml", MANIFEST)
    return path


def test_a_table_of_a_database_lands_and_is_read_with_its_types(shell: Shell, orders: Path) -> None:
    ran = shell.json("pipeline", "run", "shop")

    read = shell.json("read", 'SELECT id, "at", price, doc, raw FROM orders WHERE id = 3')

    (run,) = ran["runs"]
    assert (run["status"], run["rows"], run["batches"]) == ("success", 5, 3)
    assert read["rows"] == [[3, "2026-01-01T00:00:03Z", "12.30", {"a": [1, None]}, "/wA="]]


def test_a_preview_shows_the_types_and_lands_nothing(shell: Shell, orders: Path) -> None:
    shown = shell.json("pipeline", "preview", "shop")

    (table,) = shown["tables"]
    assert [(column["name"], column["type"]) for column in table["columns"]] == [
        ("id", "int64"), ("at", "timestamp"), ("price", "decimal(9,2)"), ("doc", "json"), ("raw", "bytes"),
    ]  # fmt: skip
    assert table["more"] is True


def test_a_list_shows_what_is_read_and_never_the_dsn(shell: Shell, orders: Path) -> None:
    shell.write("contextful.toml", MANIFEST.replace("sqlite:///shop.db", "postgresql://reader:hunter2@h/shop"))

    ended = shell("pipeline", "list")

    assert "orders" in ended.out
    assert "hunter2" not in ended.out + ended.err


def test_a_missing_file_ends_the_run_as_a_mistake_of_the_manifest(shell: Shell, orders: Path) -> None:
    orders.unlink()

    ended = shell("pipeline", "run", "shop")

    assert ended.code != 0
    assert f"there is no file {orders}" in ended.err + ended.out
