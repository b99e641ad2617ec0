"""A table's corpus keeps its promises wherever its objects lie: commits, races for a marker, and the read face."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from engine.corpus.read import ReadFace
from engine.errors import ExecutionSuperseded, StorageBindingUnavailable, StorageUnusable
from engine.shapes import WriteMode
from r2.objects import BucketObjects
from tests.unit.corpus.conftest import MINUTE, Corpus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.ports import Objects
    from r2.keys import Keys


@pytest.fixture
def corpus(tmp_path: Path, objects: Objects, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.setattr("engine.local.folder.PATIENCE_S", 0.02)
    corpus = Corpus(tmp_path)
    corpus.objects = objects  # type: ignore[assignment]  # declared for a folder
    return corpus


@pytest.mark.clause("run.advance.commit-with-rows", "run.own.one-commit-per-run")
def test_one_marker_publishes_rows_and_position_together(corpus: Corpus) -> None:
    marker = corpus.land("r-1", [{"id": 1, "v": "a"}], [{"id": 2, "v": "b"}], position="p2")

    assert corpus.names() == [
        "t/commits/000000000001.json",
        "t/parts/r-1/000000.parquet",
        "t/parts/r-1/000001.parquet",
        "t/schema.json",
    ]
    assert corpus.newest == marker
    assert (marker.position, corpus.rows()) == ("p2", [(1, "a"), (2, "b")])


def test_the_latest_row_of_a_key_is_read_and_a_past_instant_too(corpus: Corpus) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}], primary_key=("id",), at=MINUTE)
    corpus.land("r-2", [{"id": 1, "v": "b"}, {"id": 2, "v": "c"}], primary_key=("id",), at=2 * MINUTE)

    assert corpus.rows() == [(1, "b"), (2, "c")]
    assert corpus.rows(as_of=MINUTE) == [(1, "a")]
    assert [(table.name, table.seq) for table in ReadFace(corpus.objects).describe()] == [("t", 2)]


def test_a_replacement_hides_what_came_before(corpus: Corpus) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}])
    corpus.land("r-2", [{"id": 9, "v": "z"}], mode=WriteMode.REPLACE)

    assert corpus.rows() == [(9, "z")]


@pytest.mark.clause("run.advance.commit-with-rows")
def test_two_writers_that_race_both_land_each_under_its_own_number(corpus: Corpus, tmp_path: Path) -> None:
    stages = {f"r-{n}": corpus.stage(f"r-{n}", [{"id": n, "v": "a"}]) for n in range(2)}

    with ThreadPoolExecutor(2) as pool:
        committed = list(pool.map(lambda run: corpus.commit(stages[run], run), stages))

    assert all(each.won for each in committed)
    assert sorted(each.marker.seq for each in committed) == [1, 2]
    assert corpus.rows() == [(0, "a"), (1, "a")]
    assert corpus.rows("_commit_seq, id") == sorted((each.marker.seq, int(each.marker.by.run_id[2:]))
                                                    for each in committed)  # fmt: skip


def test_a_number_taken_by_another_run_is_left_to_it(corpus: Corpus) -> None:
    staged = corpus.stage("r-1", [{"id": 1, "v": "a"}])
    others = iter(["r-2"])

    def overtaken() -> None:
        if other := next(others, None):
            corpus.land(other, [{"id": 2, "v": "b"}])

    committed = corpus.commit(staged, "r-1", check_owner=overtaken)

    assert (committed.won, committed.marker.seq) == (True, 2)
    assert corpus.rows("id, _commit_seq") == [(1, 2), (2, 1)]


def test_an_attempt_that_was_taken_over_publishes_nothing(corpus: Corpus) -> None:
    stalled, taker = corpus.stage("r-1", [{"id": 1, "v": "a"}]), corpus.stage("r-2", [{"id": 1, "v": "a"}])

    def taken_over() -> None:
        corpus.commit(taker, "r-2", execution_id="x-1")
        raise ExecutionSuperseded(scope="t", attempt="r-1")

    with pytest.raises(ExecutionSuperseded):
        corpus.commit(stalled, "r-1", execution_id="x-1", check_owner=taken_over)

    assert corpus.rows() == [(1, "a")]
    assert not corpus.names("t/parts/r-1/")


def test_a_part_that_is_gone_is_a_failure_of_the_store(corpus: Corpus) -> None:
    marker = corpus.land("r-1", [{"id": 1, "v": "a"}])
    corpus.objects.delete([marker.parts[0].name])

    with pytest.raises(StorageUnusable, match=r"000000\.parquet"):
        corpus.rows()


@pytest.mark.parametrize("created", [True, False])
def test_a_marker_whose_answer_was_lost_is_looked_for(keys: Keys, tmp_path: Path, *, created: bool) -> None:
    corpus = Corpus(tmp_path)
    corpus.objects = BucketObjects(keys, tmp_path / "copies")  # type: ignore[assignment]  # declared for a folder
    create = keys.create

    def lost(key: str, content: bytes) -> bool:
        if created:
            create(key, content)
        raise StorageBindingUnavailable(place=key, reason="no answer", applied="unknown")

    losing: Callable[[], None] = lambda: setattr(corpus.objects, "_keys", _With(keys, create=lost))  # noqa: E731
    if created:
        assert corpus.commit(corpus.stage("r-1", [{"id": 1, "v": "a"}]), "r-1", check_owner=losing).won
        assert corpus.rows() == [(1, "a")]
    else:
        with pytest.raises(StorageBindingUnavailable):
            corpus.commit(corpus.stage("r-1", [{"id": 1, "v": "a"}]), "r-1", check_owner=losing)
        assert corpus.names("t/parts/r-1/")  # it may come about yet, and its rows must be there then


class _With:
    def __init__(self, keys: Keys, **other: object) -> None:
        self._keys = keys
        self.__dict__.update(other)

    def __getattr__(self, name: str) -> object:
        return getattr(self._keys, name)
