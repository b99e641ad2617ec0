"""The read face: what markers name, as of an instant, in the types of the newest schema."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from engine.corpus.read import ReadFace
from engine.errors import ReadRefused, StorageUnusable
from engine.shapes import WriteMode

MINUTE = 60_000


def test_a_keyless_table_is_the_union_and_a_keyed_one_the_latest_row_a_key(corpus: Any) -> None:
    for run in ("r-1", "r-2"):
        corpus.land(run, [{"id": 1, "v": run}, {"id": 1, "v": run + "b"}])
    assert len(corpus.rows()) == 4

    corpus.land("r-3", [{"id": 2, "v": "c"}], primary_key=("id",))

    assert corpus.rows() == [(1, "r-2b"), (2, "c")]


def test_rows_without_any_key_are_all_read_and_a_null_beside_a_value_is_part_of_a_key(corpus: Any) -> None:
    corpus.land("r-1", [{"id": None, "v": "a"}, {"id": None, "v": "b"}, {"id": 1, "v": "c"}], primary_key=("id",))
    assert corpus.rows() == [(1, "c"), (None, "a"), (None, "b")]

    corpus.land("r-2", [{"id": 2, "v": None}, {"id": 2, "v": None}], primary_key=("id", "v"))

    assert corpus.rows() == [(1, "c"), (2, None), (None, "a"), (None, "b")]


def test_a_bound_is_inclusive_and_takes_the_schema_and_key_of_its_time(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}], at=MINUTE)
    corpus.land("r-2", [{"id": 1, "w": True}], types={"id": "int64", "w": "bool"}, primary_key=("id",), at=2 * MINUTE)

    assert corpus.read("FROM t", as_of=MINUTE).columns[:2] == ("id", "v")
    assert corpus.read("FROM t", as_of=2 * MINUTE - 1).snapshots == {"t": "r-1"}
    assert corpus.rows("id, v, w", as_of=2 * MINUTE) == [(1, None, True)]
    assert corpus.read("FROM t", as_of=0).rows == []
    assert corpus.read("FROM t", as_of=0).snapshots == {}


def test_widened_columns_keep_every_value_exact(corpus: Any) -> None:
    corpus.land("r-1", [{"a": 2**53, "b": 2**63 - 1}], types={"a": "int64", "b": "int64"})
    corpus.land("r-2", [{"a": 0.5, "b": Decimal(2**70)}], types={"a": "float64", "b": "decimal(38,0)"})

    answer = corpus.read("SELECT a, b FROM t ORDER BY b")

    assert answer.types == ("DOUBLE", "DECIMAL(38,0)")
    assert answer.rows == [(float(2**53), Decimal(2**63 - 1)), (0.5, Decimal(2**70))]


def test_integers_beside_text_of_another_column_are_not_turned_into_text(corpus: Any) -> None:
    corpus.land("r-1", [{"a": 1}], types={"a": "int64"})
    corpus.land("r-2", [{"b": "x"}], types={"b": "string"})

    assert corpus.rows("a, b") == [(1, None), (None, "x")]


def test_nested_values_read_as_json(corpus: Any) -> None:
    corpus.land("r-1", [{"j": '{"a":{"b":2}}'}], types={"j": "json"})

    answer = corpus.read("SELECT j, j -> 'a' ->> 'b' AS b FROM t")

    assert answer.types[0] == "JSON"
    assert answer.plain_rows == [[{"a": {"b": 2}}, "2"]]


def test_every_type_comes_out_ready_for_json(corpus: Any) -> None:
    types = {"s": "string", "i": "int64", "f": "float64", "d": "decimal(18,4)", "b": "bool", "day": "date",
             "moment": "timestamp", "raw": "bytes", "j": "json"}  # fmt: skip
    row = {"s": "ü", "i": 2**60, "f": float("inf"), "d": Decimal("1.1000"), "b": True, "day": date(2026, 1, 2),
           "moment": datetime(2026, 1, 2, 3, 4, 5, 6000, UTC), "raw": b"\0\xff", "j": "[1]"}  # fmt: skip
    corpus.land("r-1", [row, dict.fromkeys(types)], types=types)

    plain = corpus.read(f"SELECT {', '.join(types)} FROM t ORDER BY _row_seq").plain_rows

    assert plain == [
        ["ü", 2**60, "inf", "1.1000", True, "2026-01-02", "2026-01-02T03:04:05.006000Z", "AP8=", [1]],
        [None] * 9,
    ]


def test_instants_are_utc_wherever_the_reader_lives(corpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        corpus.land("r-1", [{"id": 1, "v": "a"}], at=5 * MINUTE)
        rows = corpus.rows("CAST(_ingested_at AS VARCHAR), hour(_ingested_at)")
    finally:
        monkeypatch.undo()
        time.tzset()

    assert rows == [("1970-01-01 00:05:00+00", 0)]


def test_names_that_are_keywords_or_hold_quotes_work_when_quoted(corpus: Any) -> None:
    corpus.table = "select"
    corpus.land("r-1", [{'o"rder': 1, "group": 2, "a.b": 3}], types=dict.fromkeys(['o"rder', "group", "a.b"], "int64"))

    answer = corpus.read('SELECT "o""rder", "group", "a.b" FROM "select"')

    assert answer.rows == [(1, 2, 3)]
    assert answer.snapshots == {"select": "r-1"}


def test_a_table_is_found_whatever_its_case(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}])

    assert corpus.read("SELECT id FROM T").rows == [(1,)]
    assert corpus.read("SELECT id FROM main.t").rows == [(1,)]


def test_a_with_clause_may_take_a_tables_name(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}])

    assert corpus.read("WITH t AS (SELECT 7 AS id) SELECT id FROM t").rows == [(7,)]
    assert corpus.read("WITH u AS (SELECT id FROM t) SELECT id FROM u").rows == [(1,)]


def test_joins_name_the_snapshot_of_every_table(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}])
    corpus.table = "u"
    corpus.land("r-2", [{"id": 1, "v": "b"}])

    answer = corpus.read("SELECT t.v, (SELECT max(v) FROM u) FROM t WHERE id IN (SELECT id FROM u)")

    assert answer.rows == [("a", "b")]
    assert answer.snapshots == {"t": "r-1", "u": "r-2"}


@pytest.mark.parametrize(
    "statement", ["DESCRIBE t", "SHOW TABLES", "SUMMARIZE t", "VALUES (1)", "SELECT 1;", "TABLE t"]
)
def test_other_spellings_of_a_select_are_read(corpus: Any, statement: str) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}])

    assert corpus.read(statement).rows


def test_a_ceiling_cuts_the_rows_and_says_so(corpus: Any) -> None:
    corpus.land("r-1", [{"id": n, "v": ""} for n in range(5)])

    assert len(corpus.read("FROM t", limit=4).rows) == 4
    assert corpus.read("FROM t", limit=4).truncated
    assert not corpus.read("FROM t", limit=5).truncated
    assert len(corpus.read("FROM t", limit=None).rows) == 5


def test_an_unknown_table_is_answered_with_the_near_ones(corpus: Any) -> None:
    corpus.table = "issues"
    corpus.land("r-1", [{"id": 1, "v": "a"}])

    with pytest.raises(ReadRefused, match="no table 'isues'; did you mean issues"):
        corpus.read("SELECT * FROM isues")


def test_an_unknown_table_in_an_empty_corpus_is_refused(corpus: Any) -> None:
    with pytest.raises(ReadRefused, match="none yet"):
        corpus.read("SELECT * FROM t")


@pytest.mark.parametrize("column", ["titel", "t.titel", "T.titel"])
def test_an_unknown_column_is_answered_with_the_near_ones(corpus: Any, column: str) -> None:
    corpus.land("r-1", [{"id": 1, "title": "a"}], types={"id": "int64", "title": "string"})

    with pytest.raises(ReadRefused, match="no column 'titel'; did you mean title"):
        corpus.read(f"SELECT {column} FROM t")


def test_a_value_that_cannot_be_cast_is_refused_in_one_sentence(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}])

    with pytest.raises(ReadRefused) as refusal:
        corpus.read("SELECT CAST(v AS INTEGER) FROM t")

    assert "'a'" in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("gone", [0, 1])
def test_a_part_that_is_gone_is_a_failure_of_the_store(corpus: Any, gone: int) -> None:
    markers = [corpus.land(run, [{"id": 1, "v": "a"}]) for run in ("r-1", "r-2")]
    corpus.objects.delete([markers[gone].parts[0].name])

    with pytest.raises(StorageUnusable, match=r"000000\.parquet"):
        corpus.rows()


@pytest.mark.parametrize(
    "damaged", [slice(-6, -5), slice(-400, -8), slice(-4, None)], ids=["length", "footer", "magic"]
)
def test_damaged_bytes_are_a_failure_of_the_store_and_not_of_the_statement(corpus: Any, damaged: slice) -> None:
    name = corpus.land("r-1", [{"id": 1, "v": "a"}]).parts[0].name
    content = bytearray(corpus.objects.get(name))
    content[damaged] = bytes(255 - byte for byte in content[damaged])
    corpus.objects.local(name).write_bytes(content)

    with pytest.raises(StorageUnusable, match="contextful storage check"):
        corpus.rows()


def test_describe_tells_columns_rows_and_the_last_commit(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}, {"id": 2, "v": "a"}], at=MINUTE)
    corpus.land("r-2", [{"id": 1, "v": "b"}], mode=WriteMode.REPLACE, primary_key=("id",), at=2 * MINUTE)

    (table,) = ReadFace(corpus.objects).describe()

    assert (table.name, table.rows, table.seq, table.committed_at) == ("t", 1, 2, 2 * MINUTE)
    assert table.columns[:2] == (("id", "BIGINT"), ("v", "VARCHAR"))
    assert table.primary_key == ("id",)
    assert ReadFace(corpus.objects).describe(as_of=MINUTE)[0].rows == 2
    assert ReadFace(corpus.objects).describe(as_of=0) == []


def test_rows_of_a_folder_named_like_a_partition_or_a_pattern_are_read(tmp_path: Any, corpus: Any) -> None:
    odd = type(corpus)(tmp_path / "year=2026 [x]*'q")
    for n in (1, 2):
        odd.land(f"r-{n}", [{"id": n, "year": n}], types={"id": "int64", "year": "int64"})

    assert odd.read("FROM t").columns[:3] == ("id", "year", "_ingested_at")
    assert odd.rows("id, year") == [(1, 1), (2, 2)]


def test_a_thousand_small_parts_are_read_in_a_moment(corpus: Any) -> None:
    corpus.land("r-1", *([{"id": n, "v": "a"}] for n in range(1000)), primary_key=("id",))

    started = time.perf_counter()
    count = corpus.read("SELECT count(*) FROM t").rows

    assert count == [(1000,)]
    assert time.perf_counter() - started < 5  # about 0.2 s on an idle machine
