"""The commit: rows and position by one marker, under the number, the instant and the run that the marker carries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from engine.corpus import layout
from engine.corpus.marker import Event
from engine.corpus.schema import Schema
from engine.errors import ExecutionSuperseded, StorageUnusable, StoreSchemaIncompatible
from engine.shapes import CursorKind, WriteMode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MINUTE = 60_000


@pytest.mark.clause("run.advance.commit-with-rows", "run.own.one-commit-per-run", "run.own.backpressure")
def test_one_marker_publishes_three_pulls_and_their_position(corpus: Any) -> None:
    marker = corpus.land("r-1", [{"id": 1, "v": "a"}], [{"id": 2, "v": "b"}], [{"id": 3, "v": "c"}], position="p3")

    assert corpus.names() == [
        "t/commits/000000000001.json",
        "t/parts/r-1/000000.parquet",
        "t/parts/r-1/000001.parquet",
        "t/parts/r-1/000002.parquet",
        "t/schema.json",
    ]
    assert (marker.seq, marker.position, marker.rows) == (1, "p3", 3)
    assert [part.name for part in marker.parts] == corpus.names("t/parts/")
    assert corpus.newest == marker
    assert corpus.rows() == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.clause("run.advance.commit-with-rows")
def test_a_crash_before_the_marker_leaves_the_old_state_whole(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}], position="p1")

    class Killed(BaseException):
        pass

    def die() -> None:
        corpus.objects.delete = lambda names: None  # a killed process removes nothing
        raise Killed

    with pytest.raises(Killed):
        corpus.land("r-2", [{"id": 2, "v": "b"}], position="p2", check_owner=die)

    assert "t/parts/r-2/000000.parquet" in corpus.names()
    assert corpus.rows() == [(1, "a")]
    assert corpus.newest.position == "p1"


@pytest.mark.clause("run.record.writing-site")
def test_every_row_names_its_site_its_run_and_its_place_in_the_commit(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], [{"id": 3, "v": "c"}])

    rows = corpus.rows("_row_seq, _site_id, _run_id, _commit_seq, id")

    assert rows == [(0, "laptop", "r-1", 1, 1), (1, "laptop", "r-1", 1, 2), (2, "laptop", "r-1", 1, 3)]


@pytest.mark.clause("run.own.stage-commit-seq")
def test_a_run_committing_between_stage_and_commit_takes_the_lower_number(corpus: Any) -> None:
    staged = corpus.stage("run-s", [{"id": 1, "v": "s"}], [{"id": 2, "v": "s"}])
    corpus.land("run-c", [{"id": 3, "v": "c"}])

    corpus.commit(staged, "run-s")

    assert corpus.rows("v, _commit_seq") == [("c", 1), ("s", 2), ("s", 2)]


@pytest.mark.clause("run.own.stage-instant")
def test_the_later_commit_wins_a_key_however_early_it_was_staged(corpus: Any) -> None:
    corpus.now = MINUTE
    early = corpus.stage("run-a", [{"id": 1, "v": "a"}])
    corpus.land("run-b", [{"id": 1, "v": "b"}], primary_key=("id",), at=3 * MINUTE)

    corpus.commit(early, "run-a", primary_key=("id",), at=5 * MINUTE)

    assert corpus.rows("v, epoch_ms(_ingested_at)") == [("a", 5 * MINUTE)]


@pytest.mark.clause("run.own.stage-instant")
def test_a_commit_is_later_than_the_one_before_it_whatever_the_clock_says(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}], primary_key=("id",), at=MINUTE)

    marker = corpus.land("r-2", [{"id": 1, "v": "b"}], primary_key=("id",), at=MINUTE - 1)

    assert marker.committed_at == MINUTE + 1
    assert corpus.rows("v") == [("b",)]


@pytest.mark.clause("run.own.stage-schema")
def test_a_failed_runs_stage_fixes_no_type_and_its_own_commit_meets_the_tables(corpus: Any) -> None:
    text = corpus.stage("run-s", [{"ts": "2026-01-01"}], types={"ts": "string"})
    corpus.land("r-2", [{"ts": None}, {"ts": 5}], types={"ts": "timestamp"})
    before = corpus.names()

    with pytest.raises(StoreSchemaIncompatible) as refusal:
        corpus.commit(text, "run-s")

    assert (refusal.value.column, refusal.value.standing, refusal.value.found) == ("ts", "timestamp", "string")
    assert "run-s" in refusal.value.place
    assert corpus.names() == before


@pytest.mark.clause("run.own.stage-schema")
def test_the_commit_alone_merges_the_columns_into_the_tables_schema(corpus: Any) -> None:
    staged = corpus.stage("r-1", [{"id": 1, "v": "a"}])
    assert corpus.objects.get("t/schema.json") is None

    corpus.commit(staged, "r-1")
    corpus.land("r-2", [{"id": 2, "w": 1.5}], types={"id": "int64", "w": "float64"})

    cached = Schema.from_json(json.loads(corpus.objects.get("t/schema.json")))
    assert cached == corpus.newest.schema
    assert cached.names == ("id", "v", "w")


@pytest.mark.clause("run.own.stage-schema")
def test_a_column_that_a_run_saw_without_a_type_is_in_no_schema_of_the_table(corpus: Any) -> None:
    stage = corpus.stage("r-1")
    stage.add(corpus.recorded([{"id": 1}], {"id": "int64"}, untyped=("due",)))

    marker = corpus.commit(stage, "r-1").marker

    assert (marker.schema.names, marker.schema.untyped) == (("id",), ())
    assert "due" not in corpus.objects.get("t/schema.json").decode()


def test_a_cached_schema_that_was_lost_is_written_by_the_next_commit(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}])
    corpus.objects.delete(["t/schema.json"])

    corpus.land("r-2", [{"id": 1, "v": "a"}])

    assert corpus.objects.get("t/schema.json") is not None


@pytest.mark.clause("run.own.stage-discard")
@pytest.mark.parametrize("raised", [ExecutionSuperseded(scope="t", attempt="r-2"), KeyboardInterrupt()])
def test_a_commit_that_fails_before_its_marker_removes_its_parts(corpus: Any, raised: BaseException) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}])
    before = corpus.names()

    with pytest.raises(type(raised)):
        corpus.land("r-2", [{"id": 2, "v": "b"}], check_owner=_raising(raised))

    assert corpus.names() == before


@pytest.mark.clause("run.own.stage-discard")
def test_a_full_disk_under_the_parts_leaves_none(corpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    staged = corpus.stage("r-1", [{"id": 1, "v": "a"}], [{"id": 2, "v": "b"}])
    place = corpus.objects._place
    placed: list[Path] = []

    def fill(path: Any, content: bytes) -> None:
        if placed:
            raise StorageUnusable(place=str(path), reason="No space left on device")
        placed.append(path)
        place(path, content)

    monkeypatch.setattr(corpus.objects, "_place", fill)
    with pytest.raises(StorageUnusable):
        corpus.commit(staged, "r-1")

    assert corpus.names() == []


@pytest.mark.clause("run.own.stage-discard")
def test_a_marker_that_could_not_be_created_leaves_no_parts(corpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = StorageUnusable(place="t", reason="No space left on device")
    monkeypatch.setattr(corpus.objects, "create", lambda *_: _raising(refusal)())

    with pytest.raises(StorageUnusable):
        corpus.land("r-1", [{"id": 1, "v": "a"}])

    assert corpus.names() == []


@pytest.mark.clause("run.advance.concurrency-by-kind")
@pytest.mark.parametrize(("standing", "ours", "committed"), [(5, 3, 5), (3, 5, 5), (None, 3, 3), (5, None, 5)])
def test_a_monotonic_position_never_goes_back(corpus: Any, standing: Any, ours: Any, committed: Any) -> None:
    terms = {"cursor_kind": CursorKind.MONOTONIC, "higher": max}
    corpus.land("r-1", [{"id": 1, "v": "a"}], position=standing, **terms)

    marker = corpus.land("r-2", [{"id": 1, "v": "a"}], position=ours, **terms)

    assert marker.position == committed


@pytest.mark.clause("run.advance.concurrency-by-kind", "run.advance.cursor-bytes")
def test_an_opaque_position_is_whatever_the_run_says(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}], position={"page": "z"}, higher=max)

    assert corpus.land("r-2", [{"id": 1, "v": "a"}], position={"page": "a"}, higher=max).position == {"page": "a"}


def test_a_reposition_moves_the_position_and_no_row(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}], position="p1")

    marker = corpus.reposition("r-2", None)

    assert (marker.seq, marker.event, marker.position, marker.parts) == (2, Event.REPOSITION, None, ())
    assert corpus.rows() == [(1, "a")]


@pytest.mark.clause("run.advance.zero-row-commit")
def test_an_empty_replacement_empties_the_table_and_keeps_its_past(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}], mode=WriteMode.REPLACE, at=MINUTE)

    marker = corpus.land("r-2", mode=WriteMode.REPLACE, at=2 * MINUTE)

    assert (marker.event, marker.parts) == (Event.EMPTY_REPLACEMENT, ())
    assert corpus.rows() == []
    assert corpus.rows(as_of=2 * MINUTE - 1) == [(1, "a")]
    assert corpus.rows(as_of=2 * MINUTE) == []


@pytest.mark.clause("run.advance.zero-row-commit")
def test_an_append_without_rows_moves_the_position_alone(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}])

    marker = corpus.land("r-2", position="p2")

    assert (marker.event, marker.position) == (Event.RUN, "p2")
    assert corpus.rows() == [(1, "a")]


def test_a_replacement_hides_every_row_before_it(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}, {"id": 2, "v": "a"}], primary_key=("id",))
    corpus.land("r-2", [{"id": 1, "v": "b"}], mode=WriteMode.REPLACE, primary_key=("id",))
    corpus.land("r-3", [{"id": 3, "v": "c"}], primary_key=("id",))

    assert corpus.rows() == [(1, "b"), (3, "c")]


def test_parts_of_equal_rows_are_equal_bytes(corpus: Any, tmp_path: Any) -> None:
    other = type(corpus)(tmp_path / "other")
    pulls = [[{"id": 1, "v": "a"}, {"id": 2, "v": None}], [{"id": 3, "v": "c"}]]

    first, second = corpus.land("r-1", *pulls), other.land("r-1", *pulls)

    assert first == second


def test_a_part_holds_its_markers_columns_in_their_merged_types(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": 1.5}], types={"id": "int64", "v": "float64"})
    corpus.land("r-2", [{"v": 2}], types={"v": "int64"})

    part = pq.read_table(corpus.objects.local(layout.part("t", "r-2", 0)))

    assert part.schema.names[:2] == ["id", "v"]
    assert part.column("v").to_pylist() == [2.0]
    assert str(part.schema.field("_ingested_at").type) == "timestamp[us, tz=UTC]"


def _raising(error: BaseException) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act
