"""What the read face keeps out: everything that writes, and everything of the machine but the corpus."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from engine.corpus import read
from engine.corpus.statement import Statement
from engine.errors import ReadRefused

WRITES = [
    "COPY t TO '{folder}/out.csv'",
    "COPY (SELECT 1) TO '{folder}/out.parquet'",
    "ATTACH '{folder}/other.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "PRAGMA version",
    "PRAGMA enable_profiling",
    "CREATE TABLE u AS SELECT 1",
    "CREATE OR REPLACE VIEW t AS SELECT 1",
    "INSERT INTO t VALUES (1)",
    "DELETE FROM t",
    "DROP VIEW t",
    "UPDATE t SET id = 1",
    "EXPORT DATABASE '{folder}/out'",
    "EXPLAIN ANALYZE COPY t TO '{folder}/out.csv'",
    "CALL pragma_version()",
    "CHECKPOINT",
    "BEGIN",
    "USE memory",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "VACUUM",
    "SELECT 1; COPY t TO '{folder}/out.csv'",
    "SELECT 1; SELECT 2",
    "SELECT 1 INTO t",
    "",
    "-- nothing",
    "SELEC 1",
]
READS = [
    "SELECT * FROM read_csv('{folder}/secret.csv')",
    "SELECT * FROM read_csv_auto('{folder}/secret.csv')",
    "SELECT * FROM READ_TEXT('{folder}/secret.csv')",
    "SELECT * FROM read_blob('{folder}/secret.csv')",
    "SELECT * FROM read_json('{folder}/secret.csv')",
    "SELECT * FROM read_parquet('{folder}/corpus/t/parts/r-1/000000.parquet')",
    "SELECT * FROM parquet_metadata('{folder}/corpus/t/parts/r-1/000000.parquet')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM sniff_csv('{folder}/secret.csv')",
    "SELECT * FROM '{folder}/secret.csv'",
    "SELECT * FROM '{folder}/corpus/t/parts/r-1/000000.parquet'",
    "SELECT * FROM 'http://127.0.0.1:9/x.parquet'",
    'SELECT * FROM "{folder}/secret.csv"',
    "SELECT (SELECT content FROM read_text('{folder}/secret.csv'))",
    "WITH a AS (SELECT * FROM read_text('{folder}/secret.csv')) SELECT * FROM a",
    "SELECT 1 WHERE EXISTS (FROM glob('*'))",
    "SELECT * FROM t UNION ALL BY NAME SELECT * FROM read_text('{folder}/secret.csv')",
    "SELECT * FROM t, LATERAL (SELECT * FROM read_text('{folder}/secret.csv'))",
    "DESCRIBE SELECT * FROM read_csv('{folder}/secret.csv')",
    "SUMMARIZE '{folder}/secret.csv'",
    "SELECT * FROM query('SELECT * FROM read_text(''{folder}/secret.csv'')')",
    "SELECT * FROM query_table('t')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM pragma_database_list",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM here",
    "SELECT getenv('HOME')",
]


@pytest.fixture
def guarded(corpus: Any) -> Any:
    corpus.land("r-1", [{"id": 1, "v": "a"}])
    (corpus.root / "secret.csv").write_text("secret\nvalue\n")
    return corpus


@pytest.mark.parametrize("statement", WRITES + READS)
def test_the_statement_is_refused_and_changes_nothing(guarded: Any, statement: str) -> None:
    here = [{"secret": 1}]  # a local variable must not become a table
    before = sorted(guarded.root.rglob("*"))

    with pytest.raises(ReadRefused):
        guarded.read(statement.format(folder=guarded.root))

    assert here
    assert sorted(guarded.root.rglob("*")) == before


@pytest.mark.parametrize("statement", [*READS[:5], *READS[7:10], *WRITES[:7]])
def test_the_session_itself_refuses_what_the_judge_would_let_in(
    guarded: Any, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "admitted", lambda text, connection: Statement(text, ("t",), (), lists_tables=False))
    before = sorted(guarded.root.rglob("*"))

    with pytest.raises(ReadRefused):
        guarded.read(statement.format(folder=guarded.root))

    assert sorted(guarded.root.rglob("*")) == before


def test_a_variable_of_the_reading_program_is_no_table(guarded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "admitted", lambda text, connection: Statement(text, (), (), lists_tables=False))
    monkeypatch.setattr(read, "here", pa.table({"secret": [1]}), raising=False)

    with pytest.raises(ReadRefused):
        guarded.read("SELECT * FROM here")


def test_parts_that_no_marker_names_cannot_be_opened(guarded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    guarded.objects.put("t/parts/r-2/000000.parquet", guarded.objects.get("t/parts/r-1/000000.parquet"))
    monkeypatch.setattr(read, "admitted", lambda text, connection: Statement(text, ("t",), (), lists_tables=False))

    with pytest.raises(ReadRefused):
        guarded.read(f"SELECT * FROM read_parquet('{guarded.root}/corpus/t/parts/r-2/000000.parquet')")
