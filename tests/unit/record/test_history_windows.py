"""A window of the run history is cut by the query itself, over an index on the start."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from engine.errors import HistoryBoundSpelling
from engine.export import described, listed
from engine.history import lower_bound
from engine.local.sqlite import SqliteDatabase
from engine.ports import Call
from engine.runs import RunRow
from engine.shapes import RunStatus
from engine.sql import TABLES, call, schema, statement

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.stores import Store


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    database = SqliteDatabase(tmp_path / "state.sqlite")
    database.run(*schema(*TABLES))
    yield database
    database.close()


@pytest.mark.clause("run.record.history-window")
@pytest.mark.parametrize(
    ("query", "index"), [("list_runs", "runs_by_start"), ("list_pipeline_runs", "runs_by_pipeline")]
)
def test_a_window_is_read_in_order_from_an_index_on_the_start(database: SqliteDatabase, query: str, index: str) -> None:
    asked = statement(query)
    plan = replace(asked, name="plan", text=f"EXPLAIN QUERY PLAN {asked.text}")

    told = database.run(Call(plan, call(query, since=1, ceiling=5, pipeline_id="p").arguments))[0]

    steps = [str(step[-1]) for step in told]
    assert any(f"USING INDEX {index} (" in step and "started_at>?" in step for step in steps), steps
    assert not any("TEMP B-TREE" in step for step in steps), steps


@pytest.mark.clause("run.record.history-window")
@pytest.mark.parametrize("pipeline", [None, "p"])
def test_bound_and_ceiling_cut_the_window_newest_first(store: Store, pipeline: str | None) -> None:
    runs = store.here.runs
    for number in range(6):
        runs.insert(RunRow(f"p-{number}", RunStatus.SUCCESS, 100 + number, pipeline_id="p"))

    def ids(since: int, ceiling: int) -> list[str]:
        return [row.run_id for row in runs.since(since, ceiling=ceiling, pipeline_id=pipeline)]

    assert ids(0, 3) == ["p-5", "p-4", "p-3"]
    assert ids(104, 9) == ["p-5", "p-4"]
    assert ids(105, 9) == ["p-5"]
    assert ids(106, 9) == []


@pytest.mark.clause("run.record.describe-window", "run.record.truncation-flag")
def test_a_listing_for_people_has_five_lines_unless_it_is_asked_for_more_and_500_at_most(store: Store) -> None:
    for number in range(502):
        store.here.runs.insert(RunRow(f"p-{number:03}", RunStatus.SUCCESS, number, pipeline_id="p"))

    plain, most = (listed(store.here.runs, pipelines=(), since=None, limit=limit) for limit in (None, 9_999))

    assert [line.run.run_id for line in plain.lines] == [f"p-{number}" for number in range(501, 496, -1)]
    assert (plain.limit, plain.truncated) == (5, True)
    assert (len(most.lines), most.limit, most.truncated) == (500, 500, True)


@pytest.mark.clause("run.record.truncation-flag")
def test_a_listing_says_that_there_are_more_than_it_read_though_they_share_a_line(store: Store) -> None:
    turned_away = {"tag": "Transient", "name": "ExecutionLive", "message": "held"}
    for number in range(501):
        store.here.runs.insert(RunRow(f"j-{number}", RunStatus.FAILED, number, host_scope="job", error=turned_away))

    listing = listed(store.here.runs, pipelines=(), since=None, limit=None)

    assert [line.count for line in listing.lines] == [500]
    assert listing.truncated


@pytest.mark.clause("run.record.truncation-flag")
def test_a_window_is_echoed_as_it_was_asked_for(store: Store) -> None:
    window = described(store.here.runs, pipelines=("p", "q"), since="2026-01-31", limit=7)

    assert window.shown == {"since": "2026-01-31T00:00:00.000Z", "limit": 7, "pipelines": ("p", "q")}
    assert (window.runs, window.truncated) == ((), False)


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose own zone is hours ahead."""
    monkeypatch.setenv("TZ", "XXX-5:45")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_east")
@pytest.mark.clause("run.record.bound-spelling")
@pytest.mark.parametrize(
    ("bound", "instant"),
    [
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T06:07:08Z", datetime(2026, 1, 31, 6, 7, 8, tzinfo=UTC)),
        ("2026-01-31T06:07:08.25Z", datetime(2026, 1, 31, 6, 7, 8, 250_000, tzinfo=UTC)),
    ],
)
def test_a_bound_is_the_instant_it_spells_wherever_it_is_read(bound: str, instant: datetime) -> None:
    assert lower_bound(bound) == instant.timestamp() * 1000


@pytest.mark.clause("run.record.bound-spelling")
@pytest.mark.parametrize(
    "bound",
    [
        *("", "2026-02-30", "2026-01-31\n", "\u0662026-01-31", "1767225600000"),
        *("2026-01-31T24:30:00Z", "2026-01-31T06:07:08z", "2026-01-31T06:07Z", "2026-01-31 06:07:08Z"),
    ],
)
def test_a_bound_near_the_two_spellings_is_refused_too(bound: str) -> None:
    with pytest.raises(HistoryBoundSpelling):
        lower_bound(bound)
