"""A chunk's execution: who owns it, what a repeat goes on with, and that it commits once whatever dies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import Permanent
from engine.pipeline.backfill import Backfill
from engine.pipeline.checkpoints import Limits
from engine.pipeline.chunks import Chunk, Window
from engine.pipeline.declaration import Pipeline
from engine.pipeline.source import Secrets
from engine.shapes import FireState
from tests.pipeline.backfill.conftest import Archive, Onlooker
from tests.pipeline.conftest import day
from tests.stores import LEASE, Died

if TYPE_CHECKING:
    from tests.clocks import SettableClock


@pytest.mark.clause("run.own.retirement")
def test_a_completed_chunk_retires_its_owner_and_is_remembered_with_it(archive: Archive) -> None:
    archive.backfill()
    archive.past.asked.clear()

    again = archive.backfill()

    assert (again.exit_code, again.done, again.rows, archive.past.asked) == (0, 5, 0, [])
    assert archive.shop.store.here.owners.all() == []
    assert archive.states() == "ddddd"
    assert [planned.attempts for planned in archive.plan()] == [1] * 5


@pytest.mark.clause("run.own.retirement")
def test_the_same_window_under_another_plan_is_a_fresh_execution(archive: Archive) -> None:
    first = archive.backfill(day(1), day(2))

    second = archive.backfill(day(1), day(3))

    runs = [chunk.run for ended in (first, second) for chunk in ended.chunks if chunk.run]
    assert len({run.execution_id for run in runs}) == 3


@pytest.mark.clause("run.own.execution-owner", "run.own.host-scope")
def test_a_chunk_has_an_owner_of_its_own_that_pins_what_a_tables_does_and_its_window(archive: Archive) -> None:
    archive.past.failures[day(2)] = Permanent("gone")
    table = archive.table()

    archive.backfill(table=table)

    (owner,) = archive.shop.store.here.owners.all()
    assert owner.scope == f"chunk:orders:{day(2)}..{day(3)}"
    assert Chunk.of(owner.scope) == Chunk("orders", Window(day(2), day(3)))
    assert owner.plan_ref == table.content_hash
    assert f'"window":"{day(2)}..{day(3)}"' in owner.pins
    assert '"connector"' in owner.pins


def test_one_failing_chunk_stops_no_other_and_a_repeat_asks_only_for_what_is_missing(archive: Archive) -> None:
    archive.past.failures[day(2)] = Permanent("gone")

    ended = archive.backfill()

    assert (ended.exit_code, ended.state, ended.done) == (1, FireState.FAILED, 4)
    assert [chunk.planned.number for chunk in ended.chunks if chunk.failed] == [1]
    assert archive.states() == "dpddd"
    assert [planned.attempts for planned in archive.plan()] == [1, 1, 1, 1, 1]
    archive.past.asked.clear()
    again = archive.backfill()
    assert again.exit_code == 0
    assert archive.past.asked[0] == (day(2), day(3), 1)
    assert archive.past.windows == [day(2)]
    assert archive.shop.ids() == archive.ids


def test_a_crash_in_the_middle_of_a_chunk_lands_every_row_once_and_asks_no_done_window_again(
    archive: Archive, clock: SettableClock
) -> None:
    dead = archive.shop.store.stalled()

    def dies(since: Any, page: int) -> None:
        if (since, page) == (day(3), 1):
            raise Died

    archive.past.before = dies
    with pytest.raises(Died):
        archive.backfill(engine=dead)
    archive.past.before = lambda *_: None
    clock.advance(LEASE + 1_000)
    archive.past.asked.clear()

    ended = archive.backfill(engine=archive.shop.store.engine())

    assert ended.exit_code == 0
    assert archive.past.windows == [day(3), day(4), day(5)]
    assert (day(3), day(4), 0) not in archive.past.asked
    assert archive.shop.ids() == archive.ids


def died_behind_its_third_commit(archive: Archive, clock: SettableClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Backfill until the third chunk has committed and not retired; a live run then commits behind it."""
    dead = archive.shop.store.stalled()
    retire = dead.owners.retire

    def dies(attempt: Any, **batch: Any) -> None:
        if day(3) in attempt.scope.split("..")[0]:
            raise Died
        retire(attempt, **batch)

    monkeypatch.setattr(dead.owners, "retire", dies)
    with pytest.raises(Died):
        archive.backfill(engine=dead)
    archive.live(engine=archive.shop.store.engine())
    clock.advance(LEASE + 1_000)
    archive.past.asked.clear()


@pytest.mark.clause("run.own.marker-reconciles")
def test_a_chunk_that_died_between_its_commit_and_its_retirement_is_done_without_a_run(
    archive: Archive, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    died_behind_its_third_commit(archive, clock, monkeypatch)

    ended = archive.backfill(engine=archive.shop.store.engine())

    assert (ended.exit_code, ended.done) == (0, 5)
    assert (ended.chunks[2].run, ended.chunks[2].rows) == (None, 2)
    assert archive.past.windows == [day(4), day(5)]
    assert sorted(archive.shop.ids()) == sorted(archive.ids * 2)


@pytest.mark.clause("run.own.marker-reconciles")
def test_a_chunk_whose_attempt_committed_after_it_was_looked_at_lands_no_row_again(
    archive: Archive, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    died_behind_its_third_commit(archive, clock, monkeypatch)
    monkeypatch.setattr("engine.pipeline.backfill.settled", lambda *_: None)

    ended = archive.backfill(engine=archive.shop.store.engine())

    assert (ended.exit_code, ended.done) == (0, 5)
    assert sorted(archive.shop.ids()) == sorted(archive.ids * 2)


@pytest.mark.clause("run.own.checkpoint-scope")
def test_a_chunk_commits_once_however_much_it_stages(archive: Archive) -> None:
    engine = archive.shop.store.engine()
    engine.settings = replace(engine.settings, limits=Limits(checkpoint=1))

    ended = archive.backfill(day(1), day(6), every="5d", engine=engine)

    assert (ended.exit_code, archive.shop.marker().seq, archive.shop.marker().rows) == (0, 1, 10)


@pytest.mark.clause("run.own.marker-reconciles")
def test_a_chunks_commit_hides_no_commit_of_a_live_run_that_died_before_its_retirement(
    archive: Archive, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = archive.shop.store.stalled()

    def dies(*_: Any, **__: Any) -> None:
        raise Died

    monkeypatch.setattr(dead.owners, "retire", dies)

    def live_run_that_dies(since: Any, page: int) -> None:
        if (since, page) == (day(1), 1):
            archive.past.before = lambda *_: None
            with pytest.raises(Died):
                archive.live(engine=dead)

    archive.past.before = live_run_that_dies
    archive.backfill(engine=archive.shop.store.engine())
    clock.advance(LEASE + 1_000)

    archive.live(engine=archive.shop.store.engine())

    newest = archive.past.rows[-1]
    assert sorted(archive.shop.ids()) == sorted([*archive.ids * 2, newest["id"]])


def test_a_chunk_that_another_process_has_landed_meanwhile_is_not_asked_for(archive: Archive) -> None:
    other = archive.shop.store.engine()

    def lands_the_rest(since: Any, page: int) -> None:
        if (since, page) == (day(1), 0):
            archive.past.before = lambda *_: None
            table = archive.table()
            asked = Backfill(other, Pipeline("shop", (table,)), Secrets({}), Onlooker())
            (course,) = asked.course([table], day(1), day(6), every="1d")
            others = asked.run([course])
            assert others.exit_code == 75

    archive.past.before = lands_the_rest
    ended = archive.backfill()

    assert ended.exit_code == 0
    assert archive.shop.ids() == archive.ids
    assert archive.states() == "ddddd"
    assert archive.shop.store.here.owners.all() == []
