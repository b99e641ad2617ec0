"""What lands of each window of history, and the live position that stays where it is."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import BackfillNeedsIncremental, BackfillStepsExceeded, BackfillWindowUnusable, Permanent
from engine.pipeline.backfill import Backfill, Backfilled
from engine.pipeline.declaration import Pipeline
from engine.pipeline.plans import ChunkState
from engine.pipeline.source import Secrets
from tests.pipeline.conftest import day

if TYPE_CHECKING:
    from tests.pipeline.backfill.conftest import Archive


def test_every_row_of_the_window_lands_once_and_none_outside(archive: Archive) -> None:
    ended = archive.backfill(day(2), day(4))

    assert (ended.exit_code, ended.done, ended.total, ended.rows) == (0, 2, 2, 4)
    assert archive.shop.ids() == [20, 21, 30, 31]
    assert archive.watcher.seen == [(f"{day(2)}..{day(3)}", 1, 2), (f"{day(3)}..{day(4)}", 2, 2)]
    first, second = [chunk.run for chunk in ended.chunks]
    assert first is not None
    assert second is not None
    assert (first.chunk, first.not_admitted, second.not_admitted) == (f"{day(2)}..{day(3)}", 6, 4)
    assert {(since, until) for since, until, _ in archive.past.asked} == {(day(2), day(3)), (day(3), day(4))}


def test_a_row_at_a_windows_end_belongs_to_the_next_window(archive: Archive) -> None:
    archive.backfill(day(1), day(3))

    per_run = archive.shop.read("SELECT _run_id, list(id ORDER BY id) AS ids FROM orders GROUP BY 1 ORDER BY ids")
    assert [ids for _, ids in per_run] == [[10, 11], [20, 21]]


def test_dates_stand_for_their_first_instants_beside_instants(archive: Archive) -> None:
    ended = archive.backfill("2026-01-02", "2026-01-04")

    assert ended.exit_code == 0
    assert archive.shop.ids() == [20, 21, 30, 31]


def test_a_column_of_numbers_moves_by_numbers(archive: Archive) -> None:
    archive.past.rows = [{"id": n, "at": n} for n in range(10)]

    ended = archive.backfill("2", "9", every="3")

    assert [chunk.planned.chunk.window.text for chunk in ended.chunks] == ["2..5", "5..8", "8..9"]
    assert archive.shop.ids() == [2, 3, 4, 5, 6, 7, 8]


def test_a_live_run_before_during_and_after_is_not_moved(archive: Archive) -> None:
    newest = archive.past.rows[-1]["at"]
    archive.live()
    assert archive.shop.marker().position == {"field": "at", "at": newest}
    landed: list[int] = []

    def live_run_in_the_third_window(since: Any, page: int) -> None:
        if since == day(3) and page == 1 and not landed:
            landed.append(page)
            archive.past.rows.append({"id": 61, "at": "2026-01-06T12:00:00Z"})
            archive.live(engine=archive.shop.store.engine())

    archive.past.before = live_run_in_the_third_window
    ended = archive.backfill()
    archive.past.before = lambda *_: None

    assert (ended.exit_code, landed) == (0, [1])
    assert archive.shop.marker().position == {"field": "at", "at": "2026-01-06T12:00:00Z"}
    archive.past.asked.clear()
    archive.live()
    assert archive.past.windows == ["2026-01-06T12:00:00Z"]
    assert archive.shop.marker().position == {"field": "at", "at": "2026-01-06T12:00:00Z"}


def test_a_backfill_before_the_first_live_run_leaves_it_without_a_position(archive: Archive) -> None:
    archive.backfill()

    assert archive.shop.marker().position is None
    archive.past.asked.clear()
    archive.live()
    assert archive.past.windows == [None]


def test_a_live_run_and_a_backfill_at_the_same_instant_both_commit(archive: Archive) -> None:
    other = archive.shop.store.engine()
    backfilled: list[Backfilled] = []
    thread = threading.Thread(target=lambda: backfilled.append(archive.backfill(engine=other)))

    thread.start()
    archive.live()
    thread.join()

    assert backfilled[0].exit_code == 0
    assert archive.shop.marker().position == {"field": "at", "at": archive.past.rows[-1]["at"]}
    assert sorted(archive.shop.ids()) == sorted(archive.ids * 2)


def test_a_plan_of_other_windows_says_what_has_landed_of_them_already(archive: Archive) -> None:
    archive.past.failures[day(2)] = Permanent("gone")
    archive.backfill(day(1), day(3))
    table = archive.table()
    asked = Backfill(archive.shop.store.here, Pipeline("shop", (table,)), Secrets({}), archive.watcher)

    (course,) = asked.course([table], day(1), day(6), every="2d")
    (later,) = asked.course([table], day(3), day(6), every="1d")

    told = [(other.chunk.window.text, other.state) for other in course.overlapping]
    assert told == [(f"{day(1)}..{day(2)}", ChunkState.DONE), (f"{day(2)}..{day(3)}", ChunkState.PENDING)]
    assert later.overlapping == ()


@pytest.mark.parametrize(("start", "end", "every", "option"), [
    ("soon", day(2), "1d", "--from"),
    (day(2), day(2), "1d", "--to"),
    (day(2), "7", "1d", "--to"),
    (day(1), day(2), "1", "--every"),
    (day(1), day(2), "0d", "--every"),
    ("1", "9", "1d", "--every"),
])  # fmt: skip
def test_a_window_that_is_none_is_refused_naming_the_option(
    archive: Archive, start: str, end: str, every: str, option: str
) -> None:
    with pytest.raises(BackfillWindowUnusable) as refusal:
        archive.backfill(start, end, every=every)

    assert refusal.value.option == option
    assert archive.past.asked == []


def test_a_window_of_another_kind_than_the_position_is_refused(archive: Archive) -> None:
    archive.live()

    with pytest.raises(BackfillWindowUnusable, match="orders with"):
        archive.backfill("1", "9", every="1")


def test_a_table_without_a_clock_is_refused(archive: Archive) -> None:
    with pytest.raises(BackfillNeedsIncremental, match="orders declares no incremental"):
        archive.backfill(table=archive.shop.table())


def test_a_plan_past_the_profiles_steps_is_refused_naming_both_numbers(archive: Archive) -> None:
    engine = archive.shop.store.engine()
    engine.profile = replace(engine.profile, max_steps=4)

    with pytest.raises(BackfillStepsExceeded) as refusal:
        archive.backfill(engine=engine)

    assert (refusal.value.chunks, refusal.value.limit) == (5, 4)
    assert archive.backfill(day(1), day(5), engine=engine).exit_code == 0


def test_a_local_profile_bounds_no_plan(archive: Archive) -> None:
    assert archive.shop.store.here.profile.max_steps is None
