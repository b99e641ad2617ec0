"""Reading from the command line."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Shell


@pytest.fixture
def landed(shell: Shell) -> Shell:
    """Three orders, landed."""
    shell.orders(
        {"id": 2**60, "at": "2026-01-01T00:00:00Z", "note": None, "tags": {"a": 1}},
        {"id": 2, "at": "2026-01-02T00:00:00Z", "note": 'ä, "b"\nc', "tags": None},
        {"id": 3, "at": "2026-01-03T00:00:00Z", "note": "plain", "tags": []},
    )
    assert shell("pipeline", "run", "orders").code == 0
    return shell


def test_json_has_the_fixed_names_and_exact_values(landed: Shell) -> None:
    document = landed.json("read", "SELECT id, note, tags FROM orders ORDER BY id DESC")

    assert set(document) == {"columns", "rows", "snapshots", "truncated"}
    assert document["columns"] == ["id", "note", "tags"]
    assert document["rows"][0] == [2**60, None, {"a": 1}]
    assert list(document["snapshots"]) == ["orders"]
    assert document["truncated"] is False


def test_csv_reads_back_as_it_was(landed: Shell) -> None:
    ended = landed("read", "SELECT id, note FROM orders ORDER BY id", "--format", "csv")

    assert list(csv.reader(io.StringIO(ended.out)))[:2] == [["id", "note"], ["2", 'ä, "b"\nc']]


def test_a_table_keeps_one_line_a_row(landed: Shell) -> None:
    ended = landed("read", "SELECT id, note FROM orders ORDER BY id")

    assert len(ended.out.splitlines()) == 5


def test_a_terminal_of_another_encoding_is_shown_escapes(landed: Shell) -> None:
    told = landed.script("read", "SELECT note FROM orders WHERE id = 2", "--json", PYTHONIOENCODING="ascii")
    shown = landed.script("read", "SELECT note FROM orders WHERE id = 2", PYTHONIOENCODING="ascii")

    assert told.document["rows"] == [['ä, "b"\nc']]
    assert (shown.code, "\\xe4" in shown.out) == (0, True)


def test_a_ceiling_is_said(landed: Shell) -> None:
    ended = landed("read", "SELECT id FROM orders", "--limit", "1")

    assert "there are more rows than these 1: --limit raises the ceiling" in ended.err
    assert landed.json("read", "SELECT id FROM orders", "--limit", "1")["truncated"] is True


def test_without_a_statement_tables_columns_types_and_rows_are_listed(landed: Shell) -> None:
    (table,) = landed.json("read")["tables"]

    assert (table["name"], table["rows"], table["primary_key"]) == ("orders", 3, ["id"])
    assert {"name": "id", "type": "BIGINT"} in table["columns"]
    assert "orders: 3 rows landed, key id" in landed("read").out


def test_as_of_an_instant_before_the_first_commit_nothing_is_there(landed: Shell) -> None:
    assert landed.json("read", "SELECT id FROM orders", "--as-of", "2020-01-01T00:00:00Z")["rows"] == []
    assert landed.json("read", "--as-of", "2020-01-01")["tables"] == []


@pytest.mark.parametrize(
    "sql", ["DELETE FROM orders", "SELECT 1; SELECT 2", "COPY orders TO 'x.csv'", "SELECT * FROM nope"]
)
def test_anything_but_one_select_over_the_corpus_is_refused(landed: Shell, sql: str) -> None:
    ended = landed("read", sql, "--json")

    assert ended.code == 2
    assert ended.error["name"] == "ReadRefused"
    assert "Traceback" not in ended.err


def test_an_instant_in_another_spelling_is_refused(landed: Shell) -> None:
    ended = landed("read", "SELECT 1", "--as-of", "noon", "--json")

    assert ended.code == 2
    assert ended.error["name"] == "InstantSpelling"


def test_an_empty_project_says_how_to_land_rows(shell: Shell) -> None:
    shell.orders()

    ended = shell("read")

    assert (ended.code, ended.out) == (0, "")
    assert "contextful pipeline run" in ended.err


@pytest.mark.clause("run.record.reserved-table", "run.record.time-travel")
def test_the_run_history_is_read_like_a_table(shell: Shell) -> None:
    shell.orders({"id": 1, "at": "2026-01-01T00:00:00Z"})
    shell("pipeline", "run", "orders", "--run-id", "r1")

    document = shell.json("read", "SELECT run_id, phase, status, rows FROM _runs ORDER BY phase")
    before = shell.json("read", "SELECT * FROM _runs", "--as-of", "2020-01-01")

    assert document["rows"] == [["r1", "commit", "success", 1], ["r1", "plan", "running", 0]]
    assert before["rows"] == []


def test_a_declared_table_in_which_nothing_has_landed_is_told_from_none(shell: Shell) -> None:
    shell.orders()

    empty, unknown = shell("read", "SELECT * FROM Orders"), shell("read", "SELECT * FROM customers")

    assert (empty.code, unknown.code) == (2, 2)
    assert "nothing has landed in 'Orders' yet; contextful pipeline run orders lands what its source has" in empty.err
    assert "there is no table 'customers'" in unknown.err


def test_no_table_by_an_instant_is_not_said_to_be_none_at_all(landed: Shell) -> None:
    assert landed("read", "--as-of", "2020-01-01").err == "there was no table by 2020-01-01T00:00:00.000Z\n"
