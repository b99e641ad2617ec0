"""A source that is a database, and the meter of any source, as the manifest declares them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.meters import Quota
from engine.pipeline.declaration import SqlSource
from engine.pipeline.manifest import load, missing_secrets, own_secrets, secrets_of

if TYPE_CHECKING:
    from pathlib import Path

    from engine.pipeline.declaration import Manifest, Table

TEXT = """
[project]
name = "p"
[[pipeline]]
id = "shop"
[pipeline.source]
kind = "sql"
dsn = "postgresql://reader:${PASSWORD}@db/shop"
from = "public.orders"
meter = { limit = 60, every = "1m" }
timeout = "5s"
[[pipeline.table]]
name = "orders"
[[pipeline.table]]
name = "users"
query = "SELECT * FROM users"
batch = 50
meter = { limit = 5, every = "1s" }
[[pipeline.table]]
name = "log"
dsn = "${OTHER}"
"""


def manifest(tmp_path: Path, text: str = TEXT) -> Manifest:
    path = tmp_path / "contextful.toml"
    path.write_text(text, encoding="utf-8")
    return load(path, {})


def tables(tmp_path: Path, text: str = TEXT) -> dict[str, Table]:
    return {table.name: table for table in manifest(tmp_path, text).pipelines[0].tables}


def test_a_table_reads_its_sources_relation_or_a_query_of_its_own(tmp_path: Path) -> None:
    found = tables(tmp_path)

    dsn = "postgresql://reader:${PASSWORD}@db/shop"
    assert found["orders"].source == SqlSource(dsn, tmp_path, relation="public.orders", timeout_ms=5_000)
    assert found["users"].source == SqlSource(dsn, tmp_path, query="SELECT * FROM users", batch=50, timeout_ms=5_000)


def test_a_dsns_secrets_are_the_sources_own(tmp_path: Path) -> None:
    declared = manifest(tmp_path)
    secrets = secrets_of(declared, {"PASSWORD": "p", "OTHER": "o"})

    handed = {table.name: dict(own_secrets(table.source, secrets)) for table in declared.pipelines[0].tables}

    assert handed == {"orders": {"PASSWORD": "p"}, "users": {"PASSWORD": "p"}, "log": {"OTHER": "o"}}
    assert dict(missing_secrets(declared, {})) == {
        "PASSWORD": 'pipeline "shop", table "orders": dsn', "OTHER": 'pipeline "shop", table "log": dsn',
    }  # fmt: skip


@pytest.mark.clause("run.retry.pressure-is-local")
def test_a_sources_tables_share_its_meter_and_a_table_may_have_its_own(tmp_path: Path) -> None:
    found = tables(tmp_path)

    assert found["orders"].meter == found["log"].meter == Quota("pipeline:shop", 60, 60_000)
    assert found["users"].meter == Quota("table:users", 5, 1_000)


@pytest.mark.clause("run.own.execution-owner", "run.journal.plan-pin")
@pytest.mark.parametrize(
    ("before", "after", "moves"),
    [
        ('from = "public.orders"', 'from = "public.old_orders"', True),
        ('from = "public.orders"', 'query = "SELECT 1"', True),
        ("db/shop", "db/store", True),
        ("${PASSWORD}", "${SECRET}", True),
        ('timeout = "5s"', 'timeout = "6s"', False),
        ('timeout = "5s"', "batch = 7", False),
        ("limit = 60", "limit = 61", False),
        ('meter = { limit = 60, every = "1m" }\n', "", False),
    ],
)
def test_what_is_asked_moves_the_content_hash_and_how_fast_does_not(
    tmp_path: Path, before: str, after: str, moves: bool
) -> None:
    first = tables(tmp_path)["orders"].content_hash

    second = tables(tmp_path, TEXT.replace(before, after, 1))["orders"].content_hash

    assert (first != second) is moves
