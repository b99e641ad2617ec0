"""Tables of real databases through the whole run: what lands, what a poll adds, and where a broken run goes on."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import Transient
from engine.pipeline.sources.sql import SqlRows
from engine.schedule import Schedule
from engine.shapes import RunStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.source import Ask
    from engine.shapes import Pull

UTC = {"sqlite": "TIMESTAMP", "postgres": "timestamptz"}
BYTES = {"sqlite": "BLOB", "postgres": "bytea"}
KEYED: dict[str, Any] = {"primary_key": ("id",), "incremental": "at", "source": {"batch": 2}}


@pytest.fixture
def orders(database):
    kind = database.kind
    database(f"CREATE TABLE orders (id integer PRIMARY KEY, at {UTC[kind]}, price decimal(20,4), doc json, "
             f"data {BYTES[kind]}, item text)")  # fmt: skip
    for number, second in ((1, 1), (5, 2), (3, 2), (4, 2), (2, 2), (6, 3)):
        database("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)", number, f"2026-01-01 00:00:0{second}.000001+00:00",
                 "12345678.7891", '{"n": 12345678901234567890}', b"\x00\xff", f"item {number}")  # fmt: skip
    return database


def run(shop: Any, database: Any, **declared: Any) -> Any:
    table = database.table(**(KEYED | declared))
    outcome = shop.fire(table, secrets=dict(database.secrets))
    assert not outcome.refusals
    (row,) = outcome.runs
    return row


@pytest.fixture
def breaking(monkeypatch):
    """Let the connection break before the pull of this number, once for each failure."""

    def breaks(before: int, failures: int) -> None:
        pulls, left = SqlRows.pulls, [None] * failures

        def broken(self: SqlRows, ask: Ask) -> Iterator[Pull]:
            for number, pull in enumerate(pulls(self, ask)):
                if left and (number == before or ask.position is not None):
                    left.pop()
                    raise Transient("the connection broke")
                yield pull

        monkeypatch.setattr(SqlRows, "pulls", broken)

    return breaks


def test_bytes_json_and_digits_are_what_a_read_gives(shop, orders):
    row = run(shop, orders)

    assert (row.status, row.rows, row.batches) == (RunStatus.SUCCESS, 6, 3)
    assert shop.read("SELECT price, data, doc, item FROM orders WHERE id = 1") == [
        (Decimal("12345678.7891"), b"\x00\xff", '{"n":12345678901234567890}', "item 1")
    ]
    assert shop.marker().position == {"field": "at", "at": "2026-01-01T00:00:03.000001Z"}


@pytest.mark.clause("run.advance.inclusive-boundary")
def test_a_poll_adds_what_is_new_and_reads_the_boundary_once(shop, orders):
    run(shop, orders)
    orders("INSERT INTO orders (id, at, item) VALUES (7, '2026-01-01 00:00:03.000001+00:00', 'tie'), "
           "(8, '2026-01-01 00:00:03.000002+00:00', 'next'), (9, '2026-01-01 00:00:03+00:00', 'late')")  # fmt: skip

    run(shop, orders)

    assert shop.ids() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_row_that_comes_late_lands_within_what_is_allowed(shop, orders):
    run(shop, orders)
    orders("INSERT INTO orders (id, at) VALUES (7, '2026-01-01 00:00:02.5+00:00'), (8, '2025-12-31 00:00:00+00:00')")

    run(shop, orders, allowed_lateness_ms=1_000)

    assert shop.ids() == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.clause("run.journal.replay-lands")
def test_a_run_that_broke_goes_on_behind_the_last_row_it_recorded(shop, orders, breaking):
    breaking(1, failures=1)
    failed = run(shop, orders, schedule=Schedule(attempts=1))
    orders("UPDATE orders SET at = '2026-01-01 00:00:09+00:00', item = 'moved' WHERE id IN (1, 4)")
    orders("DELETE FROM orders WHERE id = 2")

    resumed = run(shop, orders, schedule=Schedule(attempts=1))

    assert (failed.status, resumed.status, resumed.replayed) == (RunStatus.FAILED, RunStatus.SUCCESS, 1)
    assert shop.read("SELECT id, item FROM orders ORDER BY id") == [
        (1, "moved"), (2, "item 2"), (3, "item 3"), (4, "moved"), (5, "item 5"), (6, "item 6"),
    ]  # fmt: skip


def test_a_broken_connection_is_tried_again_where_the_walk_stands(shop, orders, breaking):
    breaking(1, failures=1)

    row = run(shop, orders, schedule=Schedule(attempts=2, base_ms=0, jitter_ms=0))

    assert (row.status, row.batches) == (RunStatus.SUCCESS, 3)
    assert shop.ids() == [1, 2, 3, 4, 5, 6]


def test_an_unordered_table_lands_whole_or_not_at_all(shop, orders, breaking):
    breaking(1, failures=1)
    unordered: dict[str, Any] = {"primary_key": (), "incremental": None}

    failed = run(shop, orders, **unordered)
    row = run(shop, orders, **unordered)

    assert failed.status is RunStatus.FAILED
    assert failed.error is not None
    assert "declare a primary_key" in failed.error["message"]
    assert (row.status, row.rows, row.replayed) == (RunStatus.SUCCESS, 6, 0)


def test_no_credential_is_in_what_a_run_records(shop, orders, tmp_path):
    run(shop, orders)
    broken = replace(orders.table(**KEYED), source=replace(orders.source(), relation="nowhere"))
    (row,) = shop.fire(broken, secrets=dict(orders.secrets)).runs

    secrets = [value.encode() for value in orders.secrets.values()]
    found = [path for path in (tmp_path / "project").rglob("*") if path.is_file()
             for secret in secrets if secret in path.read_bytes()]  # fmt: skip
    assert row.status is RunStatus.FAILED
    assert found == []
