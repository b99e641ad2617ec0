"""What an export selects, and how its rows are spelled."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import ExportColumnsAmbiguous, ReadRefused
from engine.exports.bodies import bodies
from engine.exports.rows import selected
from engine.shapes import WriteMode
from tests.exports.publishing import export
from tests.unit.corpus.conftest import Corpus

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus(tmp_path)


def rows(corpus: Corpus, position: Any = None, **changes: Any) -> list[dict[str, Any]]:
    return list(selected(export(**changes), corpus.objects, position=position).rows)


def position(corpus: Corpus, before: Any = None) -> Any:
    return selected(export(), corpus.objects, position=before).position


def test_every_version_of_a_keyed_row_is_published_in_the_order_of_the_commits(corpus: Corpus) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], primary_key=("id",))
    corpus.land("r-2", [{"id": 1, "v": "c"}], primary_key=("id",))

    assert [(row["id"], row["v"]) for row in rows(corpus)] == [(1, "a"), (2, "b"), (1, "c")]


def test_the_pulls_of_a_commit_come_in_their_order(corpus: Corpus) -> None:
    corpus.land("r-1", [{"id": 9, "v": "a"}], [{"id": 8, "v": "b"}], [{"id": 7, "v": "c"}])

    assert [row["id"] for row in rows(corpus)] == [9, 8, 7]


def test_of_a_replaced_table_what_the_last_replacement_hides_is_not_published(corpus: Corpus) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}])
    corpus.land("r-2", [{"id": 2, "v": "b"}], mode=WriteMode.REPLACE)
    first = position(corpus)
    corpus.land("r-3", [{"id": 3, "v": "c"}], mode=WriteMode.REPLACE)
    corpus.land("r-4", [{"id": 4, "v": "d"}], mode=WriteMode.REPLACE)

    assert [row["id"] for row in rows(corpus, first)] == [4]


def test_rows_of_a_table_that_was_begun_anew_are_all_published(corpus: Corpus) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}])
    first = position(corpus)
    corpus.objects.delete(corpus.names("t/"))
    corpus.land("r-2", [{"id": 7, "v": "b"}])
    corpus.land("r-3", [{"id": 8, "v": "c"}])

    assert [row["id"] for row in rows(corpus, first)] == [7, 8]
    assert [row["id"] for row in rows(corpus, position(corpus) | {"table": "former"})] == [7, 8]


def test_a_position_that_moves_without_rows_is_gone_past(corpus: Corpus) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}])
    first = position(corpus)
    corpus.reposition("r-2", {"x": 1})

    assert rows(corpus, first) == []
    assert position(corpus, first)["seq"] == 2
    assert position(corpus, position(corpus, first))["seq"] == 2


def test_older_rows_are_published_under_the_columns_of_today(corpus: Corpus) -> None:
    corpus.land("r-1", [{"id": 1}], types={"id": "int64"})
    corpus.land("r-2", [{"id": 2, "v": 0.5}], types={"id": "int64", "v": "float64"})

    assert rows(corpus) == [{"id": 1, "v": None}, {"id": 2, "v": 0.5}]


def test_values_keep_every_digit_and_instants_their_zone(corpus: Corpus) -> None:
    statement = (
        "SELECT 9007199254740993 AS n, 1.10::DECIMAL(18,4) AS d, TIMESTAMPTZ '2026-01-02 03:04:05+00' AS t, "
        "'{\"a\": [1, null]}'::JSON AS j, 'x'::BLOB AS b, NULL AS nothing, 'é' AS s"
    )

    [row] = rows(corpus, table=None, statement=statement)

    assert row == {
        "n": 9007199254740993, "d": "1.1000", "t": "2026-01-02T03:04:05Z", "j": {"a": [1, None]}, "b": "eA==",
        "nothing": None, "s": "é",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["DELETE FROM t", "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM nowhere"])
def test_a_statement_is_one_select_over_the_corpus(corpus: Corpus, text: str) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}])

    with pytest.raises(ReadRefused):
        rows(corpus, table=None, statement=text)


def test_two_columns_of_one_name_are_refused_by_it(corpus: Corpus) -> None:
    with pytest.raises(ExportColumnsAmbiguous, match="more than one column a;"):
        rows(corpus, table=None, statement="SELECT 1 AS a, 2 AS b, 3 AS a")


def test_bodies_hold_as_many_rows_as_asked_for_and_the_last_one_the_rest() -> None:
    made = list(bodies(iter([{"id": n} for n in range(5)]), export="out", size=2))

    assert [(body.ordinal, body.rows) for body in made] == [(1, 2), (2, 2), (3, 1)]
    assert json.loads(made[2].content) == {"export": "out", "batch": 3, "rows": [{"id": 4}]}
    assert len({body.digest for body in made}) == 3


@pytest.mark.parametrize("text", ["é", "\ud800", "a\x00b"])
def test_a_body_is_json_in_utf_8_whatever_text_it_holds(text: str) -> None:
    [body] = bodies(iter([{"v": text}]), export="out", size=2)

    assert json.loads(body.content.decode())["rows"] == [{"v": text}]
