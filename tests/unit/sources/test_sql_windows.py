"""A window of a backfill read from a database: all of it, and of what lies beside it as little as the database can."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from engine.errors import CursorPositionUnorderable
from engine.pipeline.chunks import Window
from tests.databases import ids

KEYED: dict[str, Any] = {"primary_key": ("id",), "incremental": "at", "source": {"batch": 2}}
DAYS = 20
UTC = {"sqlite": "TIMESTAMP", "postgres": "timestamptz"}

SPELLED = ("2026-01-30T23:59:59.999999Z", "2026-01-31T00:00:00Z", "2026-01-31 00:00:00+00:00",
           "2026-01-31T00:00:00.0000005Z", "2026-01-31T00:00:00.000001Z", "2026-01-31T13:59:59+14:00",
           "2026-01-30T12:00:00-12:00", "2026-01-30T11:59:59-12:00", "2026-02-01T00:00:00+14:00",
           "2026-01-31T09:00:00Z", "2026-02-01T00:00:00Z", "2026-01-29T00:00:00Z", "2026-02-03T00:00:00Z")  # fmt: skip
DATES = ("2026-01-30", "2026-01-31", "2026-02-01")
INSTANTS = ("2026-01-30T00:00:00Z", "2026-01-31T00:00:00Z", "2026-01-31T00:00:00.0000004Z",
            "2026-01-31T00:00:00.000001Z", "2026-01-31T14:00:00+14:00", "2026-01-30T21:00:00-12:00")  # fmt: skip
WINDOWS = [Window(*bounds) for alike in (DATES, INSTANTS) for bounds in itertools.permutations(alike, 2)]
CLOCKS = {
    "texts": ({"sqlite": "text", "postgres": "text"}, SPELLED),
    "instants": (UTC, SPELLED),
    "times without a zone": ({"sqlite": "DATETIME", "postgres": "timestamp"},
                             [f"2026-01-{day} {hour:02}:00:00" for day in (30, 31) for hour in (0, 9, 10, 21)]),
    "dates": ({"sqlite": "DATE", "postgres": "date"}, [f"2026-01-{day:02}" for day in range(28, 32)]),
    "dates as texts": ({"sqlite": "text", "postgres": "text"}, [f"2026-01-{day:02}" for day in range(28, 32)]),
}  # fmt: skip


def read(database: Any, table: Any, **bounds: Any) -> list[Any]:
    return [row for pull in database.pulls(table, **bounds) for row in pull.rows]


def inside(rows: list[Any], window: Window) -> list[Any]:
    clocks = [row["at"] for row in rows]
    admitted = window.admit(clocks, table="orders", field="at", place="here").admitted
    return sorted(row["id"] for number, row in enumerate(rows) if admitted is None or number in admitted)


@pytest.mark.clause("run.advance.inclusive-boundary")
@pytest.mark.parametrize("kind", CLOCKS)
def test_no_row_of_a_window_is_left_out_however_clocks_and_bounds_are_spelled(database, kind):
    created, clocks = CLOCKS[kind]
    database(f"CREATE TABLE orders (id integer, at {created[database.kind]})")
    for number, clock in enumerate(clocks):
        database("INSERT INTO orders VALUES (?, ?)", number, clock)
    table = database.table(**KEYED)
    everything = read(database, table)

    for window in WINDOWS:
        landed = inside(read(database, table, since=window.start, until=window.end), window)

        assert landed == inside(everything, window), window.text


@pytest.fixture
def days(database):
    """An order a day, and the number of its day."""
    database(f"CREATE TABLE orders (id integer PRIMARY KEY, at {UTC[database.kind]}, day integer)")
    for number in range(1, DAYS + 1):
        database("INSERT INTO orders VALUES (?, ?, ?)", number, f"2026-01-{number:02} 12:00:00+00:00", number)
    return database


@pytest.mark.parametrize(("clock", "since", "until"), [("at", "2026-01-05T00:00:00Z", "2026-01-07"), ("day", 5, 7)])
def test_what_lies_behind_the_end_of_a_window_is_not_read(days, clock, since, until):
    pulls = days.pulls(days.table(**KEYED | {"incremental": clock}), since=since, until=until)

    read = [row for pull in ids(pulls) for row in pull]
    beside = {("sqlite", "at"): [4], ("postgres", "day"): [7]}.get((days.kind, clock), [])
    assert sorted(read) == sorted([5, 6, *beside])
    assert (pulls[-1].more, pulls[-1].snapshot_complete) == (False, True)


@pytest.mark.clause("run.advance.unorderable-position")
def test_a_clock_of_another_class_is_refused_and_not_taken_for_one_behind_the_end(database):
    if database.kind == "postgres":
        pytest.skip("its columns hold what they say")
    database("CREATE TABLE orders (id integer, at)")
    database("INSERT INTO orders VALUES (1, '2026-01-01'), (2, x'ff')")

    with pytest.raises(CursorPositionUnorderable):
        database.pulls(database.table(**KEYED), since="2026-01-01", until="2026-01-02")
