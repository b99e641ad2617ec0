"""Dropping a table, whole or in pieces."""

from __future__ import annotations

from typing import Any

import pytest

from engine.corpus.drop import drop
from engine.corpus.marker import tail


def test_a_dropped_table_is_gone_and_its_neighbour_stands(corpus: Any) -> None:
    for run in ("r-1", "r-2"):
        corpus.land(run, [{"id": 1, "v": run}])
    corpus.table = "t2"
    corpus.land("r-3", [{"id": 1, "v": "a"}])

    assert drop(corpus.objects, "t") == 2

    assert not corpus.objects.local("t").exists()
    assert corpus.rows() == [(1, "a")]
    assert drop(corpus.objects, "t") == 0


@pytest.mark.parametrize("survivors", range(1, 6))
def test_a_drop_that_crashed_leaves_an_older_state_whole_and_can_be_repeated(corpus: Any, survivors: int) -> None:
    for run in ("r-1", "r-2", "r-3"):
        corpus.land(run, [{"id": 1, "v": run}])
    _crash_after(corpus.objects, survivors)

    with pytest.raises(RuntimeError):
        drop(corpus.objects, "t")

    newest = tail(corpus.objects, "t")
    assert (newest.seq if newest else 0) == max(3 - survivors, 0)
    if newest:
        assert corpus.rows("v") == [("r-1",), ("r-2",)][: newest.seq]
    del corpus.objects.delete
    drop(corpus.objects, "t")
    assert corpus.names() == []


def test_a_table_can_begin_again_after_a_drop(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}])
    drop(corpus.objects, "t")

    assert corpus.land("r-2", [{"id": "text"}], types={"id": "string"}).seq == 1


def _crash_after(objects: Any, deletions: int) -> None:
    delete, left = objects.delete, [deletions]

    def dying(names: list[str]) -> None:
        for name in names:
            if not left[0]:
                raise RuntimeError("killed")
            left[0] -= 1
            delete([name])

    objects.delete = dying
