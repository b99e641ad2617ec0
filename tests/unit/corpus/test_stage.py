"""The stage: recorded bytes as they are, one part a pull, a schema of the run's own."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.corpus.schema import Column, Schema
from engine.errors import LateType, StorageUnusable, StoreSchemaIncompatible
from engine.pipeline.recording import decode, encode
from engine.pipeline.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.clause("run.own.backpressure")
def test_each_pull_is_one_part_on_disk_before_the_next(corpus: Any, tmp_path: Path) -> None:
    stage = corpus.stage("r-1")

    for ordinal, rows in enumerate(([{"id": 1}], [{"id": 2}, {"id": 3}], [{"id": 4}])):
        part = stage.add(corpus.recorded(rows, {"id": "int64"}))

        assert (part.ordinal, part.rows) == (ordinal, len(rows))
        assert part.path == tmp_path / "staged" / "r-1" / f"{ordinal:06}.arrow"
        assert part.load().to_pylist() == rows
    assert (stage.rows, len(stage.parts)) == (4, 3)


@pytest.mark.clause("run.own.stage-commit-seq", "run.own.stage-instant")
def test_a_staged_file_is_the_recorded_bytes_and_knows_no_commit(corpus: Any) -> None:
    recorded = corpus.recorded([{"id": 1, "v": "a"}], {"id": "int64", "v": "string"})

    part = corpus.stage("r-1").add(recorded)

    assert hashlib.sha256(part.path.read_bytes()).digest() == hashlib.sha256(recorded).digest()
    assert part.size == len(recorded)
    assert part.load().schema.names == ["id", "v"]


@pytest.mark.clause("run.own.backpressure")
def test_staging_syncs_nothing(corpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    monkeypatch.setattr("os.fdatasync", synced.append)

    corpus.stage("r-1", [{"id": 1, "v": "a"}])

    assert synced == []


@pytest.mark.clause("run.own.stage-schema")
def test_a_pull_is_refused_against_the_tables_schema(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}])
    stage = corpus.stage("r-2")

    with pytest.raises(StoreSchemaIncompatible) as refusal:
        stage.add(corpus.recorded([{"id": "x"}], {"id": "string"}))

    assert (refusal.value.column, refusal.value.standing) == ("id", "int64")
    assert refusal.value.place == "t, pull 0, row 1"
    assert stage.parts == ()
    assert stage.schema == Schema()


@pytest.mark.clause("run.own.stage-schema")
def test_a_pull_is_refused_against_the_runs_earlier_ones_and_leaves_them_staged(corpus: Any) -> None:
    stage = corpus.stage("r-1", [{"id": 1}], types={"id": "int64"})

    with pytest.raises(StoreSchemaIncompatible, match=r"\(t, pull 1, row 1\)"):
        stage.add(corpus.recorded([{"id": "x"}], {"id": "string"}))

    assert [part.ordinal for part in stage.parts] == [0]
    assert stage.schema.names == ("id",)


@pytest.mark.clause("run.own.stage-schema")
def test_a_refusal_names_the_pull_that_the_execution_counts_and_the_first_row_with_a_value(corpus: Any) -> None:
    stage = corpus.stage("r-1", [{"id": 1}], types={"id": "int64"})
    batch, meta = decode(corpus.recorded([{"id": None}, {"id": None}, {"id": "x"}], {"id": "string"}))

    for facts, place in [(meta, "t, pull 7, row 3"), (replace(meta, not_admitted=1), "t, pull 7")]:
        with pytest.raises(StoreSchemaIncompatible) as refusal:
            stage.add_decoded(encode(batch, facts), rows=3, meta=facts, pull=7)

        assert refusal.value.place == place


@pytest.mark.clause("run.own.stage-schema")
def test_the_runs_own_schema_widens_over_its_pulls(corpus: Any) -> None:
    stage = corpus.stage("r-1", [{"v": 1}], types={"v": "int64"})

    stage.add(corpus.recorded([{"v": 1.5, "w": "x"}], {"v": "float64", "w": "string"}))

    assert [(column.name, column.type) for column in stage.schema.columns] == [("v", "float64"), ("w", "string")]


@pytest.mark.clause("run.own.stage-schema")
def test_the_runs_own_schema_holds_what_its_pulls_brought_and_nothing_else_of_the_tables(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}])

    stage = corpus.stage("r-2", [{"id": 2, "w": "x"}], types={"id": "int64", "w": "string"})

    assert stage.schema.names == ("id", "w")


@pytest.mark.clause("run.own.stage-schema")
def test_integers_no_float_holds_bar_a_float_in_a_later_pull(corpus: Any) -> None:
    stage = corpus.stage("r-1", [{"v": 2**53 + 1}], types={"v": "int64"})

    with pytest.raises(StoreSchemaIncompatible):
        stage.add(corpus.recorded([{"v": 1.5}], {"v": "float64"}))


def test_a_type_declared_after_the_column_was_staged_untyped_is_late(corpus: Any) -> None:
    stage = corpus.stage("r-1")
    stage.add(corpus.recorded([{"id": 1}], {"id": "int64"}, untyped=("due",)))

    with pytest.raises(LateType) as refusal:
        stage.add(corpus.recorded([], {"due": "date"}, declared={"due": "date"}))

    assert (refusal.value.column, refusal.value.declared) == ("due", "date")
    assert len(stage.parts) == 1


def test_a_downgrade_is_kept_once_a_column(corpus: Any) -> None:
    stage = corpus.stage("r-1")
    for _ in range(2):
        stage.add(corpus.recorded([{"id": 1, "a": "{}"}], {"id": "int64", "a": "json"}, downgraded=("a",)))

    marker = corpus.commit(stage, "r-1").marker

    assert [event["path"] for event in stage.downgrades] == ["a"]
    assert marker.downgrades == stage.downgrades


@pytest.mark.clause("run.own.stage-discard")
def test_discarding_removes_the_runs_files_and_may_be_repeated(corpus: Any, tmp_path: Path) -> None:
    kept = corpus.stage("r-2", [{"id": 2, "v": "b"}])
    stage = corpus.stage("r-1", [{"id": 1, "v": "a"}])

    stage.discard()
    stage.discard()

    assert not (tmp_path / "staged" / "r-1").exists()
    assert kept.parts[0].path.exists()


@pytest.mark.clause("run.own.stage-discard")
def test_what_a_crashed_life_of_the_run_staged_is_staged_afresh(corpus: Any) -> None:
    corpus.stage("r-1", [{"id": 1, "v": "a"}], [{"id": 2, "v": "b"}])

    again = corpus.stage("r-1", [{"id": 1, "v": "a"}])
    corpus.commit(again, "r-1")

    assert corpus.rows() == [(1, "a")]
    assert len(list(again.parts[0].path.parent.iterdir())) == 1


def test_scratch_that_cannot_be_written_is_named(corpus: Any, tmp_path: Path) -> None:
    (tmp_path / "staged").write_text("a file where a folder should be")

    with pytest.raises(StorageUnusable) as refusal:
        Stage(tmp_path / "staged", run_id="r-1", table="t", standing=Schema((Column("id", "int64"),)))

    assert str(tmp_path / "staged") in refusal.value.place
