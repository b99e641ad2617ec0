"""Rows of a database, of either kind: in order, each once, whatever happens to the table meanwhile."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from engine.errors import Config, ContextfulError, CursorPositionUnorderable, Permanent, SourceShape
from engine.pipeline.declaration import Column, SqlSource
from engine.pipeline.source import Ask, Secrets
from engine.pipeline.sources import open_source
from engine.shapes import CursorKind
from tests.databases import ids

KEYED: dict[str, Any] = {"primary_key": ("id",), "incremental": "at", "source": {"batch": 2}}
UTC = {"sqlite": "TIMESTAMP", "postgres": "timestamptz"}


@pytest.fixture
def orders(database):
    """Six orders, the second to the fifth of one instant."""
    database(f"CREATE TABLE orders (id integer PRIMARY KEY, at {UTC[database.kind]}, item text)")
    for number, second in ((1, 1), (5, 2), (3, 2), (4, 2), (2, 2), (6, 3)):
        database(f"INSERT INTO orders VALUES ({number}, '2026-01-01 00:00:0{second}+00:00', 'item {number}')")
    return database


@pytest.mark.clause("run.advance.snapshot-completion")
def test_ties_that_two_pulls_share_come_once_each(orders):
    pulls = orders.pulls(orders.table(**KEYED))

    assert ids(pulls) == [[1, 2], [3, 4], [5, 6]]
    assert [pull.more for pull in pulls] == [True, True, False]
    assert [pull.snapshot_complete for pull in pulls] == [False, False, True]
    assert pulls[0].position["key"] in ([2], ["2"])
    assert pulls[-1].position is None


@pytest.mark.parametrize("broken", [0, 1])
def test_a_walk_that_broke_goes_on_behind_the_last_row_it_has(orders, broken):
    table = orders.table(**KEYED)
    before = orders.pulls(table)[: broken + 1]

    after = orders.pulls(table, position=before[-1].position)

    assert [row for pull in ids(before + after) for row in pull] == [1, 2, 3, 4, 5, 6]


def test_a_row_deleted_between_two_pulls_moves_no_other_out_of_sight(orders):
    table = orders.table(**KEYED)
    first = orders.pulls(table)[0]

    orders("DELETE FROM orders WHERE id IN (1, 2)")

    assert ids(orders.pulls(table, position=first.position)) == [[3, 4], [5, 6]]


def test_a_row_updated_between_two_pulls_comes_again_with_its_new_clock(orders):
    table = orders.table(**KEYED)
    first = orders.pulls(table)[0]

    orders("UPDATE orders SET at = '2026-01-01 00:00:09+00:00', item = 'new' WHERE id IN (1, 4)")

    pulls = orders.pulls(table, position=first.position)
    assert [row for pull in ids(pulls) for row in pull] == [3, 5, 6, 1, 4]
    assert [row["item"] for row in pulls[-1].rows][-1] == "new"


def test_one_walk_reads_the_table_as_it_stood_when_it_began(orders):
    if orders.kind == "sqlite":
        orders("PRAGMA journal_mode = WAL")
    walk = open_source(orders.table(**KEYED)).pulls(orders.ask())
    first = next(walk)

    orders("DELETE FROM orders WHERE id > 4")
    orders("INSERT INTO orders VALUES (7, '2026-01-01 00:00:04+00:00', 'item 7')")

    assert ids([first, *walk]) == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.clause("run.advance.inclusive-boundary")
def test_rows_at_the_watermark_come_again_and_none_below_it(orders):
    pulls = orders.pulls(orders.table(**KEYED), since="2026-01-01T00:00:02.000000Z")

    landed = [row for pull in ids(pulls) for row in pull]
    below = {"sqlite": [1], "postgres": []}[orders.kind]  # which texts are instants below it is the engine's to tell
    assert landed == [*below, 2, 3, 4, 5, 6]


SPELLED = ("2026-01-01T23:00:00Z", "2026-01-02T00:30:00.000Z", "2026-01-02T01:00:00+05:00", "2026-01-01T12:00:00.5Z",
           "2026-01-01T12:00:00Z", "2026-01-01T12:00:00.500000001Z", "2026-01-02T04:00:00+05:00")  # fmt: skip
IN_ORDER = [5, 4, 6, 3, 1, 7, 2]


@pytest.mark.parametrize("column", ["text", "TIMESTAMP"])
def test_instants_of_any_spelling_come_in_the_order_of_their_moments(database, column):
    """A checkpoint between two pulls commits the first as a watermark: nothing behind it may lie below."""
    if database.kind == "postgres" and column != "text":
        pytest.skip("its instants have one spelling")
    database(f"CREATE TABLE orders (id integer, at {column})")
    for number, text in enumerate(SPELLED, 1):
        database("INSERT INTO orders VALUES (?, ?)", number, text)
    table = database.table(primary_key=("id",), incremental="at", source={"batch": 2})

    pulls = database.pulls(table)
    again = database.pulls(table, position=pulls[1].position)
    later = database.pulls(table, since="2026-01-01T22:59:59Z")

    assert [row for pull in ids(pulls) for row in pull] == IN_ORDER
    assert [row for pull in ids(again) for row in pull] == IN_ORDER[4:]
    assert [row for pull in ids(later) for row in pull if row in IN_ORDER[4:]] == IN_ORDER[4:]


def test_without_a_key_rows_of_one_instant_come_in_one_pull(orders):
    table = orders.table(incremental="at", source={"batch": 2})
    pulls = orders.pulls(table)

    again = orders.pulls(table, position=pulls[0].position)

    assert [sorted(pull) for pull in ids(pulls)] == [[1, 2, 3, 4, 5], [6]]
    assert ids(again) == [[6]]


@pytest.mark.clause("run.advance.cursor-kind")
def test_without_a_watermark_rows_come_by_their_key(orders):
    table = orders.table(primary_key=("id",), source={"batch": 4})
    pulls = orders.pulls(table)

    assert ids(pulls) == [[1, 2, 3, 4], [5, 6]]
    assert ids(orders.pulls(table, position=pulls[0].position)) == [[5, 6]]
    assert open_source(table).cursor_kind is CursorKind.OPAQUE_TOKEN
    assert open_source(orders.table(**KEYED)).cursor_kind is CursorKind.MONOTONIC


@pytest.mark.clause("run.journal.opt-out")
def test_rows_without_any_order_are_not_recorded_and_never_read_on_from_the_middle(orders):
    table = orders.table(source={"batch": 4})
    pulls = orders.pulls(table)

    with pytest.raises(Permanent, match="declare a primary_key"):
        orders.pulls(table, position=pulls[0].position)

    assert sorted(row for pull in ids(pulls) for row in pull) == [1, 2, 3, 4, 5, 6]
    assert open_source(table).journaled is False
    assert pulls[-1].snapshot_complete


def test_a_position_holds_no_value_of_a_protected_key(orders):
    table = replace(orders.table(**KEYED), columns={"id": Column(treatment="hash")})

    pulls = orders.pulls(table)

    assert [pull.position and pull.position["key"] for pull in pulls] == [[], None]


def test_a_composite_key_orders_by_all_of_it(database):
    database("CREATE TABLE orders (shop text, id integer)")
    for shop, number in (("b", 1), ("a", 2), ("b", 0), ("a", 1)):
        database("INSERT INTO orders VALUES (?, ?)", shop, number)
    table = database.table(primary_key=("shop", "id"), source={"batch": 1})

    pulls = database.pulls(table)
    again = database.pulls(table, position=pulls[1].position)

    assert ids(pulls) == [[1], [2], [0], [1]]
    assert ids(again) == [[0], [1]]


def test_a_key_that_is_none_splits_no_two_rows_it_cannot_tell_apart(database):
    database("CREATE TABLE orders (id integer, item text)")
    for item in "abc":
        database("INSERT INTO orders VALUES (1, ?)", item)

    pulls = database.pulls(database.table(primary_key=("id",), source={"batch": 2}))

    assert ids(pulls) == [[1, 1, 1]]


@pytest.mark.clause("run.advance.unorderable-position")
def test_a_row_without_a_clock_is_refused_and_not_left_out(orders):
    orders("INSERT INTO orders VALUES (9, NULL, 'lost')")

    with pytest.raises(CursorPositionUnorderable, match=r"null.*id = '?9") as refusal:
        orders.pulls(orders.table(**KEYED), since="2026-01-01T00:00:02.000000Z")

    assert refusal.value.field == "at"


def test_a_row_without_a_key_is_refused(database):
    database("CREATE TABLE orders (id integer, item text)")
    database("INSERT INTO orders VALUES (NULL, 'lost')")

    with pytest.raises(SourceShape, match="part of the primary key"):
        database.pulls(database.table(primary_key=("id",)))


def test_a_query_is_read_like_a_table(orders):
    query = "SELECT id, at, item || '%' AS item FROM orders WHERE item LIKE 'item%' -- all of them\n ; "

    pulls = orders.pulls(orders.table(**KEYED | {"source": {"batch": 4, "query": query}}))

    assert ids(pulls) == [[1, 2, 3, 4], [5, 6]]
    assert pulls[0].rows[0]["item"] == "item 1%"


def test_an_empty_table_is_one_complete_pull(database):
    database("CREATE TABLE orders (id integer PRIMARY KEY)")

    (pull,) = database.pulls(database.table(primary_key=("id",)))

    assert (pull.rows, pull.more, pull.snapshot_complete, pull.position) == ([], False, True, None)
    assert pull.types == {"id": "int64"}


def test_names_that_need_quotes_are_quoted(database):
    database('CREATE TABLE "the ""odd`` %s orders" ("select" integer PRIMARY KEY)'.replace("%s", "of"))
    database('INSERT INTO "the ""odd`` of orders" VALUES (1)')

    (pull,) = database.pulls(database.table(primary_key=("select",), source={"relation": 'the "odd`` of orders'}))

    assert pull.rows == [{"select": 1}]


@pytest.mark.parametrize(
    ("relation", "query", "said"),
    [("nowhere", None, "nowhere"), (None, "SELEC 1", "(?i)syntax"),
     (None, "SELECT 1; SELECT 2", "(?i)syntax|one statement"), (None, "DELETE FROM orders", "(?i)syntax"),
     (None, "SELECT missing FROM orders", "missing")],
)  # fmt: skip
def test_what_the_database_does_not_take_stands_with_its_own_words(orders, relation, query, said):
    source = {"query": query} if query else {"relation": relation}

    with pytest.raises(Permanent, match=said):
        orders.pulls(orders.table(source=source))

    assert len(orders("SELECT id FROM orders")) == 6


def test_a_column_that_is_not_there_is_told_with_those_that_are(orders):
    with pytest.raises(Config, match=r"no column 'updated'; there are: id, at, item"):
        orders.pulls(orders.table(incremental="updated"))


def test_a_position_of_something_else_is_refused(orders):
    with pytest.raises(Config, match="is no position of its rows"):
        orders.pulls(orders.table(**KEYED), position={"file": "a.csv", "row": 7})


def test_an_unknown_scheme_behind_a_secret_is_refused_without_showing_it(orders):

    source = SqlSource("${DSN}", orders.base, relation="orders")
    table = replace(orders.table(), source=source)

    with pytest.raises(Config, match="of no known kind") as refusal:
        list(open_source(table).pulls(Ask(client=lambda: None, secrets=Secrets({"DSN": "mysql://u:hunter2@h"}))))  # type: ignore[arg-type, return-value]

    assert "hunter2" not in str(refusal.value)


def test_a_missing_sqlite_file_is_told_and_not_created(tmp_path, sqlite_database):
    table = replace(sqlite_database.table(), source=replace(sqlite_database.source(), dsn="sqlite:///none.db"))

    with pytest.raises(Config, match=re.escape(str(tmp_path / "none.db"))):
        sqlite_database.pulls(table)

    assert not (tmp_path / "none.db").exists()


def test_an_absolute_path_has_a_fourth_slash(orders):
    if orders.kind == "postgres":
        pytest.skip("a file's business")
    dsn = f"sqlite:///{orders.base / 'shop.db'}"

    pulls = orders.pulls(replace(orders.table(), source=replace(orders.source(), dsn=dsn)))

    assert dsn.startswith("sqlite:////")
    assert len(pulls[0].rows) == 6


def test_a_file_that_is_no_database_is_told(tmp_path, sqlite_database):
    (tmp_path / "text.db").write_text("not a database at all " * 100)
    table = replace(sqlite_database.table(), source=replace(sqlite_database.source(), dsn="sqlite:///text.db"))

    with pytest.raises(ContextfulError, match="not a database"):
        sqlite_database.pulls(table)
