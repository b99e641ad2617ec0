"""Which columns a text has, judged without running it."""

from __future__ import annotations

import sqlite3

import pytest

from engine import sql
from worker.columns import AmbiguousColumns, check_columns, reads


def statements() -> list[str]:
    return [statement.text for statement in sql._statements().values()]


@pytest.mark.parametrize("text", statements())
def test_no_statement_of_the_engine_has_columns_that_get_lost(text: str):
    check_columns(text)


@pytest.mark.parametrize("statement", sql._statements().values(), ids=lambda s: s.name)
def test_every_statement_that_reads_is_known_to(statement):
    assert reads(statement.text) or not statement.reads


@pytest.mark.parametrize(
    "text",
    ["SELECT 1 AS a, 2 AS b", "SELECT a.x, b.y FROM a, b", "SELECT count(*), max(x) FROM t",
     "SELECT (SELECT a, a) AS x",
     "SELECT CASE WHEN 1 THEN 2 END, CASE WHEN 3 THEN 4 END AS z", "SELECT 'a, a' AS x, ',' AS y",
     "DELETE FROM t",
     "INSERT INTO t SELECT a, a FROM u", "SELECT a FROM t UNION SELECT a FROM u", "CREATE TABLE t (a, b)",
     "SELECT a /* , a */ FROM t -- , a", "SELECT DISTINCT a, b FROM t", "SELECT x + a, y + a FROM t"],
)  # fmt: skip
def test_columns_with_names_of_their_own_pass(text: str):
    check_columns(text)


@pytest.mark.parametrize(
    "text",
    ["SELECT a, a FROM t", "SELECT DISTINCT a, A FROM t", "SELECT a AS x, b x FROM t", "SELECT t.a, u.a FROM t, u",
     'SELECT a, b "a" FROM t', "SELECT 1", "SELECT 'x' AS '1', 2 AS a", "SELECT t.* FROM t",
     "UPDATE t SET a = 1 RETURNING a, a",
     "SELECT a, (SELECT 1) AS a FROM t"],
)  # fmt: skip
def test_columns_that_would_be_lost_or_moved_are_refused(text: str):
    with pytest.raises(AmbiguousColumns):
        check_columns(text)


@pytest.mark.parametrize(
    "text", ["DELETE FROM t", "WITH x AS (SELECT 1) DELETE FROM t", "PRAGMA x", "REPLACE INTO t", ""]
)
def test_what_may_write_does_not_count_as_reading(text: str):
    assert not reads(text)


def test_sqlite_itself_gives_the_columns_the_names_that_are_judged():
    cursor = sqlite3.connect(":memory:").execute("SELECT 1 AS a, 2 b, 3 'c', 4 \"d\", 1 + 2 AS [e]")

    assert [column[0] for column in cursor.description] == ["a", "b", "c", "d", "e"]
