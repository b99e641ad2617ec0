"""Races for a marker: lost answers, numbers taken by others, attempts that were stopped and taken over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from engine.corpus.commit import commit
from engine.corpus.marker import Marker, find, tail
from engine.errors import CommitContended, ExecutionSuperseded, StorageBindingUnavailable, StorageUnusable

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.clause("run.advance.commit-with-rows")
def test_a_marker_whose_answer_was_lost_counts_as_created(corpus: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    create = corpus.objects.create

    def losing(name: str, content: bytes) -> bool:
        create(name, content)
        raise StorageUnusable(place=name, reason="the connection broke")

    monkeypatch.setattr(corpus.objects, "create", losing)
    committed = corpus.commit(corpus.stage("r-1", [{"id": 1, "v": "a"}]), "r-1")

    assert committed.won
    assert corpus.rows() == [(1, "a")]


def test_a_create_repeated_after_a_lost_answer_finds_its_own_marker(
    corpus: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = corpus.objects.create
    monkeypatch.setattr(corpus.objects, "create", lambda name, content: create(name, content) and create(name, content))

    committed = corpus.commit(corpus.stage("r-1", [{"id": 1, "v": "a"}]), "r-1")

    assert committed.won
    assert committed.marker.seq == 1
    assert corpus.rows() == [(1, "a")]


@pytest.mark.clause("run.own.stage-discard", "run.own.one-commit-per-run")
def test_parts_stay_where_an_unanswered_marker_may_still_come_to_name_them(
    corpus: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, sent = corpus.objects.create, []

    def silent(name: str, content: bytes) -> bool:
        sent.append((name, content))
        raise StorageBindingUnavailable(place=name, reason="no answer", applied="unknown")

    monkeypatch.setattr(corpus.objects, "create", silent)
    with pytest.raises(StorageBindingUnavailable):
        corpus.land("r-1", [{"id": 1, "v": "a"}])
    assert corpus.newest is None

    create(*sent[0])

    assert corpus.rows() == [(1, "a")]


@pytest.mark.clause("run.own.stage-commit-seq", "run.own.stage-instant")
def test_a_number_taken_by_another_run_is_left_to_it(corpus: Any) -> None:
    staged = corpus.stage("r-1", [{"id": 1, "v": "a"}])

    committed = corpus.commit(staged, "r-1", check_owner=_once(lambda: corpus.land("r-2", [{"id": 2, "v": "b"}])))

    assert (committed.won, committed.marker.seq) == (True, 2)
    assert corpus.rows("id, _commit_seq, _row_seq") == [(1, 2, 0), (2, 1, 0)]
    first = find(corpus.objects, "t", 1)
    assert first
    assert committed.marker.committed_at > first.committed_at


@pytest.mark.clause("run.own.stage-discard")
def test_a_commit_that_others_keep_overtaking_gives_up_and_removes_its_parts(
    corpus: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.corpus.commit.ATTEMPTS", 2)
    staged, others = corpus.stage("r-1", [{"id": 1, "v": "a"}]), iter(("o-1", "o-2"))

    with pytest.raises(CommitContended, match="2 other commits to t"):
        corpus.commit(staged, "r-1", check_owner=lambda: corpus.land(next(others), [{"id": 2, "v": "b"}]))

    assert not corpus.names("t/parts/r-1/")
    assert corpus.newest.by.run_id == "o-2"


@pytest.mark.clause("run.own.one-commit-per-run", "run.own.stage-discard")
def test_a_stalled_attempt_that_continues_publishes_nothing(corpus: Any) -> None:
    stalled, taker = corpus.stage("r-1", [{"id": 1, "v": "a"}]), corpus.stage("r-2", [{"id": 1, "v": "a"}])
    taken: list[Marker] = []

    def stopped_and_taken_over() -> None:
        if taken:
            raise ExecutionSuperseded(scope="t", attempt="r-1")
        taken.append(corpus.commit(taker, "r-2", execution_id="x-1").marker)

    with pytest.raises(ExecutionSuperseded):
        corpus.commit(stalled, "r-1", execution_id="x-1", check_owner=stopped_and_taken_over)

    assert corpus.newest == taken[0]
    assert corpus.names("t/parts/") == ["t/parts/r-2/000000.parquet"]
    assert corpus.rows() == [(1, "a")]


@pytest.mark.clause("run.own.one-commit-per-run", "run.own.stage-discard")
def test_a_stalled_attempt_finds_its_taker_behind_another_runs_commit(corpus: Any) -> None:
    stalled, taker = corpus.stage("r-1", [{"id": 1, "v": "a"}]), corpus.stage("r-2", [{"id": 1, "v": "a"}])

    def overtaken() -> None:
        corpus.land("r-9", [{"id": 9, "v": "z"}])
        corpus.commit(taker, "r-2", execution_id="x-1")

    committed = corpus.commit(stalled, "r-1", execution_id="x-1", check_owner=_once(overtaken))

    assert (committed.won, committed.marker.by.run_id) == (False, "r-2")
    assert corpus.rows() == [(1, "a"), (9, "z")]
    assert not corpus.names("t/parts/r-1/")


@pytest.mark.clause("run.own.one-commit-per-run")
def test_a_taker_that_finds_the_work_committed_takes_it_as_done(corpus: Any) -> None:
    before = corpus.land("r-1", [{"id": 1, "v": "a"}], execution_id="x-1", position="p1")

    committed = corpus.commit(corpus.stage("r-2", [{"id": 1, "v": "a"}]), "r-2", execution_id="x-1", position="p1")

    assert (committed.won, committed.marker) == (False, before)
    assert corpus.rows() == [(1, "a")]


def test_a_hint_past_a_dropped_tables_end_is_no_harm(corpus: Any) -> None:
    corpus.land("r-1", [{"id": 1, "v": "a"}])
    staged = corpus.stage("r-2", [{"id": 2, "v": "b"}])

    committed = commit(
        corpus.objects, corpus.terms("r-2"), stage=staged, now=lambda: 0, check_owner=lambda: None, hint=7
    )

    assert committed.marker.seq == 2
    assert tail(corpus.objects, "t", hint=9) == committed.marker
    assert tail(corpus.objects, "t", hint=2) == committed.marker
    assert tail(corpus.objects, "u", hint=9) is None


def _once(act: Callable[[], object]) -> Callable[[], None]:
    left = [act]

    def check() -> None:
        if left:
            left.pop()()

    return check
