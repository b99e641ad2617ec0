"""History in windows: what lands of each, what a repeat goes on with, and the live position that stays where it is."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from engine import stop as stops
from engine.errors import (
    BackfillNeedsIncremental,
    BackfillStepsExceeded,
    BackfillWindowUnusable,
    ExecutionPending,
    ExecutionPinMismatch,
    ExecutionRewindNotPending,
    ExecutionRewindPlanCurrent,
    ExecutionRewindUnsafe,
    Permanent,
    RateLimited,
)
from engine.pipeline.backfill import Backfill, Backfilled, Chunked
from engine.pipeline.checkpoints import Limits
from engine.pipeline.chunks import Chunk, Window
from engine.pipeline.declaration import Pipeline
from engine.pipeline.plans import ChunkState, Plans, plan_of
from engine.pipeline.source import Secrets
from engine.reset import drop
from engine.rewind import rewind, rewind_window
from engine.shapes import FireState, Pull, RunStatus, Schedule
from engine.stops import StopScope
from tests.pipeline.conftest import Silent, day
from tests.stores import LEASE, Died

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.host import Engine
    from engine.pipeline.declaration import Table
    from engine.pipeline.plans import Planned
    from engine.pipeline.source import Ask
    from tests.clocks import SettableClock
    from tests.pipeline.conftest import Shop

ONCE = Schedule(attempts=1, jitter_ms=0)


@dataclass
class Past:
    """A source that serves the rows it has from `since` on, two a page, whatever `until` says.

    A failure under a window's start is raised once in place of its second page; `before` is called ahead of each page.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    failures: dict[Any, BaseException] = field(default_factory=dict)
    asked: list[tuple[Any, Any, int]] = field(default_factory=list)
    before: Callable[[Any, int], None] = lambda *_: None

    def __call__(self, ask: Ask) -> Iterator[Pull]:
        found = [row for row in self.rows if ask.since is None or row["at"] >= ask.since]
        page = ask.position or 0
        while True:
            self.before(ask.since, page)
            if page and ask.since in self.failures:
                raise self.failures.pop(ask.since)
            self.asked.append((ask.since, ask.until, page))
            more = 2 * (page + 1) < len(found)
            yield Pull(rows=found[2 * page : 2 * page + 2], position=page + 1, more=more)
            if not more:
                return
            page += 1

    @property
    def windows(self) -> list[Any]:
        """Where each walk was asked to begin, in order, once each."""
        return list(dict.fromkeys(since for since, _, _ in self.asked))


class Onlooker(Silent):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, int, int]] = []

    def chunked(self, chunk: Chunked, *, done: int, total: int) -> None:
        self.seen.append((chunk.planned.chunk.window.text, done, total))


@dataclass
class Archive:
    """The orders of five days, two a day, behind a table with a clock."""

    shop: Shop
    past: Past = field(default_factory=Past)
    watcher: Onlooker = field(default_factory=Onlooker)

    def __post_init__(self) -> None:
        self.past.rows = [{"id": 10 * n + half, "at": day(n)[:-9] + f"{12 * half:02}:00:00Z"}
                          for n in range(1, 6) for half in (0, 1)]  # fmt: skip
        self.shop.module.script = self.past

    def table(self, **declared: Any) -> Table:
        return self.shop.table(incremental="at", schedule=ONCE, **declared)

    def backfill(
        self, start: str = day(1), end: str = day(6), *, every: str = "1d", engine: Engine | None = None,
        table: Table | None = None,
    ) -> Backfilled:  # fmt: skip
        table = table or self.table()
        asked = Backfill(engine or self.shop.store.here, Pipeline("shop", (table,)), Secrets({}), self.watcher)
        return asked.run(asked.course([table], start, end, every=every))

    def live(self, **asked: Any) -> None:
        assert self.shop.fire(self.table(), **asked).exit_code == 0

    def plan(self, start: str = day(1), end: str = day(6)) -> list[Planned]:
        engine, table = self.shop.store.here, self.table()
        asked = Backfill(engine, Pipeline("shop", (table,)), Secrets({}), self.watcher)
        (course,) = asked.course([table], start, end, every="1d")
        return Plans(engine.profile.database).read(plan_of(table, course.span))

    def states(self) -> str:
        """The states of the plan's windows by their first letters."""
        return "".join(planned.state[0] for planned in self.plan())

    @property
    def ids(self) -> list[int]:
        return [row["id"] for row in self.past.rows]


@pytest.fixture
def archive(shop: Shop) -> Archive:
    return Archive(shop)


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


@pytest.mark.clause("run.cancel.resumable-remains")
def test_a_stopped_chunk_returns_to_pending_its_attempt_count_unchanged(archive: Archive) -> None:
    archive.past.failures[day(3)] = Permanent("gone")
    archive.backfill()
    assert archive.plan()[2].attempts == 1
    store = archive.shop.store

    def stopped(since: Any, page: int) -> None:
        if (since, page) == (day(3), 1):
            (owner,) = [owner for owner in store.here.owners.all() if owner.attempt]
            stops.stop(store.here.profile, str(owner.attempt))
            stopping.stopping._poll()

    archive.past.before, stopping = stopped, store.engine()
    ended = archive.backfill(engine=stopping)
    archive.past.before = lambda *_: None

    assert [chunk.run.status for chunk in ended.chunks if chunk.run] == [RunStatus.CANCELED]
    assert archive.states() == "ddpdd"
    assert archive.plan()[2].attempts == 1
    assert archive.shop.marker().position is None
    archive.past.asked.clear()
    assert archive.backfill().exit_code == 0
    assert archive.shop.ids() == archive.ids
    assert (day(3), day(4), 0) not in archive.past.asked


@pytest.mark.parametrize(("scope", "states"), [(StopScope.RUN, "dpddd"), (StopScope.PIPELINE, "dpppp")])
@pytest.mark.clause("run.cancel.two-grains")
def test_a_stop_of_the_pipeline_leaves_every_chunk_the_fire_had_left(
    archive: Archive, scope: StopScope, states: str
) -> None:
    store = archive.shop.store

    def stopped(since: Any, page: int) -> None:
        if (since, page) == (day(2), 1):
            (owner,) = [owner for owner in store.here.owners.all() if owner.attempt]
            stops.stop(store.here.profile, str(owner.attempt), scope=scope)
            stopping.stopping._poll()

    archive.past.before, stopping = stopped, store.engine()
    ended = archive.backfill(engine=stopping)
    archive.past.before = lambda *_: None

    assert archive.states() == states
    assert ended.exit_code == 130
    assert archive.backfill().exit_code == 0
    assert archive.shop.ids() == archive.ids


def test_an_engine_that_is_asked_to_stop_leaves_the_rest_and_a_repeat_goes_on(archive: Archive) -> None:
    engine = archive.shop.store.engine()
    archive.past.before = lambda since, page: engine.stop("interrupted") if (since, page) == (day(2), 1) else None

    ended = archive.backfill(engine=engine)
    archive.past.before = lambda *_: None

    assert (ended.exit_code, ended.state, archive.states()) == (130, FireState.CANCELED, "dpppp")
    assert archive.backfill().exit_code == 0
    assert archive.shop.ids() == archive.ids


def test_a_vendors_long_wait_leaves_the_rest_for_later_and_the_chunk_goes_on_as_itself(
    archive: Archive, clock: SettableClock
) -> None:
    archive.past.failures[day(2)] = RateLimited("slow down", wait_ms=3_600_000)
    table = archive.shop.table(incremental="at", schedule=Schedule(jitter_ms=0))

    ended = archive.backfill(table=table)

    assert (ended.exit_code, archive.states()) == (75, "dpppp")
    waiting = ended.chunks[-1].run
    assert waiting is not None
    assert waiting.status is RunStatus.WAITING
    clock.advance(3_600_001)
    again = archive.backfill(table=table)
    assert again.exit_code == 0
    assert archive.shop.store.run(waiting.run_id).status is RunStatus.SUCCESS
    assert archive.shop.ids() == archive.ids


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


@pytest.mark.clause("run.own.pin-mismatch-recovery")
def test_a_rewind_of_a_window_retires_the_chunks_it_covers_and_no_other(archive: Archive) -> None:
    archive.past.failures |= {day(2): Permanent("gone"), day(4): Permanent("gone")}
    archive.backfill()
    changed = archive.table(primary_key=("id",))
    refused = archive.backfill(table=changed)
    assert [type(chunk.refusal) for chunk in refused.chunks if chunk.refusal] == [ExecutionPinMismatch] * 2
    assert "--rewind --reason TEXT" in str(refused.chunks[1].refusal)
    assert "run rewind" not in str(refused.chunks[1].refusal)

    rows = rewind_window(
        archive.shop.store.here, "orders", Window(day(1), day(3)), reason="a key", pipelines={"orders": "shop"}
    )

    (row,) = rows
    assert (row.status, row.table, row.chunk) == (RunStatus.CANCELED, "orders", f"{day(2)}..{day(3)}")
    assert (row.pipeline_id, row.reason) == ("shop", "a key")
    assert [owner.scope for owner in archive.shop.store.here.owners.all()] == [f"chunk:orders:{day(4)}..{day(5)}"]
    archive.past.asked.clear()
    again = archive.backfill(table=changed)
    assert (again.done, archive.past.windows) == (4, [day(2)])


@pytest.mark.clause("run.own.pin-mismatch-recovery")
def test_restoring_the_declaration_and_repeating_clears_a_pending_chunk(archive: Archive) -> None:
    archive.past.failures[day(2)] = Permanent("gone")
    archive.backfill()
    assert archive.backfill(table=archive.table(primary_key=("id",))).exit_code == 1

    ended = archive.backfill()

    assert ended.exit_code == 0
    assert archive.shop.store.here.owners.all() == []
    assert archive.shop.ids() == archive.ids


@pytest.mark.clause("run.own.rewind-not-pending")
def test_a_rewind_by_execution_refuses_a_chunk_and_names_its_windows(archive: Archive) -> None:
    archive.past.failures[day(2)] = Permanent("gone")
    archive.backfill()
    (owner,) = archive.shop.store.here.owners.all()

    with pytest.raises(ExecutionRewindNotPending, match=f"backfill ID --table orders --from {day(2)} --to {day(3)}"):
        rewind(archive.shop.store.here, owner.execution_id, reason="no", force=True)


@pytest.mark.clause("run.own.rewind-plan-current", "run.own.rewind-unsafe")
def test_a_rewind_of_a_window_refuses_what_a_repeat_would_resume_and_what_is_alive(archive: Archive) -> None:
    archive.past.failures[day(2)] = Permanent("gone")
    archive.backfill()
    engine, everything = archive.shop.store.here, Window(day(1), day(6))

    with pytest.raises(ExecutionRewindPlanCurrent):
        rewind_window(engine, "orders", everything, reason="no", pipelines={})

    refusals: list[str] = []

    def rewinds(since: Any, page: int) -> None:
        if (since, page) == (day(2), 1):
            with pytest.raises(ExecutionRewindUnsafe):
                rewind_window(engine, "orders", everything, reason="no", pipelines={}, force=True)
            refusals.append(since)

    archive.past.before = rewinds
    assert archive.backfill(engine=archive.shop.store.engine()).exit_code == 0
    assert refusals == [day(2)]


def test_a_table_is_not_dropped_under_an_unfinished_chunk_and_its_plans_go_with_it(archive: Archive) -> None:
    archive.past.failures[day(2)] = Permanent("gone")
    archive.backfill()
    with pytest.raises(ExecutionPending, match="--rewind --reason TEXT --force"):
        drop(archive.shop.store.here, "orders")
    archive.backfill()

    drop(archive.shop.store.here, "orders")

    assert archive.backfill().rows == len(archive.ids)
    assert archive.shop.ids() == archive.ids
