"""What a publication costs at D1: what a guarded step does, as long as bodies are small."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.exports.outbox import READ_BYTES
from engine.shapes import RunStatus
from tests.d1.test_d1_counts import cost
from tests.exports.publishing import Publishing
from tests.exports.receiver import receiving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from d1.binding import Spent
    from tests.stores import Store


@pytest.fixture
def publishing(store: Store) -> Iterator[Publishing]:
    with receiving() as receiver:
        yield Publishing(store, receiver)


def published(publishing: Publishing, batches: int, *, width: int) -> Spent:
    engine = publishing.engine()
    statement = f"SELECT i AS id, repeat('x', {width}) AS v FROM range({batches}) AS t(i)"

    def run() -> None:
        ended = publishing.run(engine, table=None, statement=statement, batch=1)
        assert (ended.run.status, ended.run.batches) == (RunStatus.SUCCESS, batches)

    return cost(engine, run)


@pytest.mark.clause("run.callback-guard.acquire", "run.callback-guard.release")
def test_a_publication_is_two_round_trips_and_its_rows(publishing: Publishing) -> None:
    few, many = (published(publishing, batches, width=100) for batches in (3, 13))

    print(f"3 batches: {few}; 13: {many}")
    assert many.round_trips - few.round_trips == 2 * 10
    # Four as any guarded step, and the outbox: filled, marked, emptied; and the entry with its execution.
    assert many.rows_written - few.rows_written <= 8 * 10


def test_bodies_are_read_in_groups_that_fit_in_memory(publishing: Publishing) -> None:
    few, many = (published(publishing, batches, width=READ_BYTES // 2 - 1000) for batches in (2, 12))

    assert many.round_trips - few.round_trips == 2 * 10 + 10 // 2
