"""A backfill of a table of a real database: what its chunks land, and how much they read for it."""

from __future__ import annotations

import pytest

from engine.pipeline.backfill import Backfill
from engine.pipeline.declaration import Pipeline
from tests.pipeline.backfill.conftest import Onlooker

DAYS = 20
UTC = {"sqlite": "TIMESTAMP", "postgres": "timestamptz"}


@pytest.mark.clause("run.advance.inclusive-boundary")
def test_the_chunks_of_a_backfill_land_each_row_once_and_read_little_beside_their_own(shop, database):
    database(f"CREATE TABLE orders (id integer PRIMARY KEY, at {UTC[database.kind]})")
    for number in range(1, DAYS + 1):
        database("INSERT INTO orders VALUES (?, ?)", number, f"2026-01-{number:02} 00:00:00+00:00")
    table = database.table(primary_key=("id",), incremental="at", source={"batch": 2})
    asked = Backfill(shop.store.here, Pipeline("shop", (table,)), database.secrets, Onlooker())

    ended = asked.run(asked.course([table], "2026-01-01", "2026-01-21", every="2d"))

    runs = [chunk.run for chunk in ended.chunks if chunk.run]
    assert (ended.exit_code, [run.rows for run in runs]) == (0, [2] * (DAYS // 2))
    assert sorted(shop.ids()) == list(range(1, DAYS + 1))
    assert max(run.not_admitted for run in runs) <= 1  # what lies right before a window, or at its end
