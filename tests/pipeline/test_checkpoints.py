"""Checkpoints of a walk: when they come, what they are called, what they leave to a run that goes on."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from engine.corpus.marker import history
from engine.errors import RateLimited
from engine.pipeline.checkpoints import Limits
from engine.shapes import RunStatus
from engine.sql import call
from tests.pipeline.conftest import day
from tests.stores import LEASE, Died

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.corpus.marker import Marker
    from engine.host import Engine
    from engine.pipeline.walk import Landing
    from engine.runs import RunRow
    from tests.pipeline.conftest import Shop

NOISE = "".join(hashlib.sha256(bytes([number])).hexdigest() for number in range(250))
"""What compresses to about half: pages that hold it are alike in size, whatever else they hold."""


def page(*ids: int, at: int = 1) -> list[dict[str, Any]]:
    return [{"id": number, "at": day(at), "text": NOISE if number == ids[0] else ""} for number in ids]


@pytest.fixture
def unit(shop: Shop) -> int:
    """The bytes that a page stages, but for a few."""
    sizes: list[int] = []
    shop.feed.serves(page(0))
    shop.fire(shop.table("probe"), look=lambda _, landing: sizes.append(len(landing.recorded or b"")))
    return sizes[0]


def limit(engine: Engine, unit: int, *, staged: float = 8.4, checkpoint: float = 3.9) -> None:
    """Set the limits of `engine` in pages."""
    limits = Limits(staged=int(staged * unit), checkpoint=int(checkpoint * unit))
    engine.settings = replace(engine.settings, limits=limits)


def sixteen(shop: Shop, **facts: Any) -> None:
    shop.feed.serves(*(page(number) for number in range(1, 17)), **facts)


def commits(shop: Shop) -> list[Marker]:
    return list(history(shop.store.here.profile.objects, "orders"))


def die_at(number: int) -> Callable[[RunRow, Landing], None]:
    """End the process once pull `number` is staged."""

    def look(_: RunRow, landing: Landing) -> None:
        if landing.number == number:
            raise Died

    return look


def die(shop: Shop, unit: int, *, number: int, **declared: Any) -> None:
    """Run in another process that dies once pull `number` is staged; its lease lapses."""
    elsewhere = shop.store.stalled()
    limit(elsewhere, unit)
    with pytest.raises(Died):
        shop.fire(shop.table(**declared), engine=elsewhere, look=die_at(number), run_id="dead")
    shop.store.clock.advance(LEASE + 1)


def recorded(shop: Shop) -> list[str]:
    owner = shop.owner()
    assert owner is not None
    return shop.store.recorded(owner.execution_id)


@pytest.mark.clause("run.own.checkpoint-commit", "run.own.checkpoint-run-id", "run.own.one-commit-per-run")
def test_sixteen_pulls_are_committed_four_at_a_time(shop: Shop, unit: int) -> None:
    """The scenario: parts of an eighth of the limit, four commits of four parts, positions p4, p8, p12 and p16."""
    limit(shop.store.here, unit)
    sixteen(shop)

    row = shop.run(run_id="r")

    assert [(marker.position, len(marker.parts)) for marker in commits(shop)] == [(4, 4), (8, 4), (12, 4), (16, 4)]
    assert [marker.by.commit_id for marker in commits(shop)] == ["r", "r.000001", "r.000002", "r.000003"]
    assert [(m.by.ordinal, m.by.final, m.by.pulls) for m in commits(shop)] == [
        (0, False, 4), (1, False, 8), (2, False, 12), (3, True, 16)]  # fmt: skip
    assert [part.name for part in commits(shop)[1].parts] == [f"orders/parts/r.000001/{n:06}.parquet" for n in range(4)]
    assert (row.status, row.rows, row.batches) == (RunStatus.SUCCESS, 16, 16)
    assert row.bytes == sum(marker.size for marker in commits(shop))
    assert shop.ids() == list(range(1, 17))
    assert shop.owner() is None
    assert shop.staged() == []


@pytest.mark.clause("run.own.checkpoint-commit", "run.own.backpressure")
def test_a_checkpoint_comes_before_more_is_staged_and_under_the_same_execution(shop: Shop, unit: int) -> None:
    seen: list[tuple[int, int, int]] = []
    executions: set[str | None] = set()

    def look(run: RunRow, landing: Landing) -> None:
        seen.append((landing.number, len(shop.staged()), len(commits(shop))))
        executions.add(run.execution_id)

    limit(shop.store.here, unit)
    sixteen(shop)
    shop.fire(shop.table(), look=look)

    assert seen[:6] == [(0, 1, 0), (1, 2, 0), (2, 3, 0), (3, 4, 0), (4, 1, 1), (5, 2, 1)]
    assert len(executions) == 1


@pytest.mark.clause("run.own.checkpoint-commit")
def test_a_pull_that_would_pass_the_limit_makes_room_for_itself(shop: Shop, unit: int) -> None:
    limit(shop.store.here, unit, staged=3, checkpoint=2.9)
    shop.feed.serves(page(1), page(2), [{"id": 3, "at": day(1), "text": NOISE + NOISE[::-1]}], page(4))

    row = shop.run()

    assert row.status is RunStatus.SUCCESS
    assert [marker.position for marker in commits(shop)] == [2, 4]


@pytest.mark.clause("run.own.checkpoint-frontier", "run.advance.frontier")
@pytest.mark.parametrize("spelled", [day, lambda number: number, lambda number: f"2026-01-0{number}T02:00:00+02:00"])
def test_no_instant_is_parted_by_two_commits(shop: Shop, unit: int, spelled: Callable[[int], Any]) -> None:
    """The scenario: five pages of clocks 1 1, 1, 2, 2 and 3, each of half the limit: commits at 1, 2 and 3."""
    clocks = {1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 6: 3}
    pages = [page(*ids) for ids in ((1, 2), (3,), (4,), (5,), (6,))]
    shop.feed.serves(*([row | {"at": spelled(clocks[row["id"]])} for row in rows] for rows in pages))
    limit(shop.store.here, unit, staged=2.1, checkpoint=0.9)

    row = shop.run(incremental="at")

    assert row.status is RunStatus.SUCCESS
    assert [marker.position["at"] for marker in commits(shop)] == [spelled(1), spelled(2), spelled(3)]
    landed = shop.read("SELECT id, _commit_seq FROM orders ORDER BY id")
    assert landed == list(clocks.items())


@pytest.mark.clause("run.own.checkpoint-frontier")
def test_a_walk_against_the_clock_commits_once(shop: Shop, unit: int) -> None:
    limit(shop.store.here, unit)
    shop.feed.serves(*(page(number, at=20 - number) for number in range(1, 7)))

    shop.run(incremental="at")

    assert [marker.position["at"] for marker in commits(shop)] == [day(19)]


@pytest.mark.clause("run.own.checkpoint-id-length")
def test_a_run_id_that_leaves_no_room_for_ordinals_commits_nothing(shop: Shop, unit: int) -> None:
    """The scenario: a run id of 122 characters and sixteen parts."""
    limit(shop.store.here, unit)
    sixteen(shop)

    row = shop.run(run_id="r" * 122)

    assert row.error is not None
    assert (row.status, row.error["name"], row.error["tag"]) == (
        RunStatus.FAILED, "RunCheckpointIdTooLong", "Permanent")  # fmt: skip
    assert f"{'r' * 122}.000001" in row.error["message"]
    assert (commits(shop), shop.owner(), shop.staged(), row.rows) == ([], None, [], 0)


@pytest.mark.clause("run.own.checkpoint-id-length")
def test_a_run_id_with_room_for_ordinals_to_the_character_commits(shop: Shop, unit: int) -> None:
    limit(shop.store.here, unit)
    sixteen(shop)

    assert shop.run(run_id="r" * 121).status is RunStatus.SUCCESS
    assert {len(marker.by.commit_id) for marker in commits(shop)} == {121, 128}


@pytest.mark.clause("run.own.checkpoint-id-length")
def test_the_longest_run_id_serves_a_run_that_commits_once(shop: Shop, unit: int) -> None:
    limit(shop.store.here, unit)
    shop.feed.serves(page(1), page(2))

    assert shop.run(run_id="r" * 128).status is RunStatus.SUCCESS


@pytest.mark.clause("run.own.checkpoint-landed", "run.retry.partial-failure")
def test_a_run_that_fails_counts_what_its_checkpoints_landed(shop: Shop, unit: int) -> None:
    """The scenario: checkpoints at p4 and p8, the tenth pull fails: the failed row counts eight rows."""
    limit(shop.store.here, unit)
    sixteen(shop)
    shop.feed.failures = {9: ValueError("tenth")}

    row = shop.run()

    assert (row.status, row.rows) == (RunStatus.FAILED, 8)
    assert row.bytes == sum(marker.size for marker in commits(shop)) > 0
    assert [marker.position for marker in commits(shop)] == [4, 8]
    assert shop.ids() == list(range(1, 9))
    assert shop.staged() == []


@pytest.mark.clause("run.own.checkpoint-landed")
def test_a_checkpoint_whose_cursor_update_fails_is_counted(
    shop: Shop, unit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(shop.store.here, unit)
    sixteen(shop)
    monkeypatch.setattr(shop.store.here.owners, "checkpoint", _refusing)

    row = shop.run()

    assert (row.status, row.rows) == (RunStatus.FAILED, 4)
    assert shop.ids() == [1, 2, 3, 4]


def _refusing(*_: Any, **__: Any) -> None:
    raise ValueError("the catalog is gone")


@pytest.mark.clause("run.record.skipped-count")
def test_rows_bytes_and_skipped_inputs_are_summed_over_every_commit(shop: Shop, unit: int) -> None:
    limit(shop.store.here, unit)
    sixteen(shop, skipped=2)

    row = shop.run()

    assert len(commits(shop)) == 4
    assert (row.rows, row.skipped) == (16, 32)
    assert row.bytes == sum(marker.size for marker in commits(shop))


@pytest.mark.clause("run.own.checkpoint-resume", "run.own.one-commit-per-run")
@pytest.mark.parametrize("number", [8, 9, 10])
def test_a_run_that_dies_behind_a_checkpoint_goes_on_from_it(shop: Shop, unit: int, number: int) -> None:
    """The scenario: checkpoints at p4 and p8, death behind them; the next fire lands every later row once."""
    sixteen(shop)
    die(shop, unit, number=number)
    asked = len(shop.feed.read)
    limit(shop.store.here, unit)

    row = shop.run(run_id="next")

    assert (row.status, row.rows, row.replayed) == (RunStatus.SUCCESS, 8, number - 7)
    assert shop.feed.read[asked:] == list(range(number + 1, 16))
    assert shop.ids() == list(range(1, 17))
    assert [(marker.position, marker.by.commit_id, marker.by.ordinal) for marker in commits(shop)] == [
        (4, "dead", 0), (8, "dead.000001", 1), (12, "next", 2), (16, "next.000001", 3)]  # fmt: skip
    assert len({marker.by.execution_id for marker in commits(shop)}) == 1


@pytest.mark.clause("run.own.checkpoint-resume")
def test_a_run_that_dies_pulling_asks_from_the_last_checkpoint_on(shop: Shop, unit: int) -> None:
    sixteen(shop)
    shop.feed.failures = {9: Died()}
    elsewhere = shop.store.stalled()
    limit(elsewhere, unit)
    with pytest.raises(Died):
        shop.fire(shop.table(), engine=elsewhere)
    shop.store.clock.advance(LEASE + 1)
    asked = len(shop.feed.read)

    shop.run()

    assert shop.feed.asks[-1].position == 9
    assert shop.feed.read[asked:] == list(range(9, 16))
    assert shop.ids() == list(range(1, 17))


@pytest.mark.clause("run.own.checkpoint-resume", "run.own.retirement")
def test_a_checkpoint_caches_its_position_collects_what_it_landed_and_keeps_the_owner(shop: Shop, unit: int) -> None:
    sixteen(shop)

    die(shop, unit, number=9)

    (cached,) = shop.store.here.profile.database.run(call("read_cursor", table_name="orders"))[0]
    assert cached == ("orders", 2, "dead.000001", "opaque-token", "8")
    assert recorded(shop) == ["pull:8", "pull:9"]


@pytest.mark.clause("run.own.checkpoint-resume", "run.advance.inclusive-boundary")
def test_a_watermarks_resumption_asks_since_the_checkpoint(shop: Shop, unit: int) -> None:
    shop.feed.serves(*(page(number, at=number) for number in range(1, 13)))
    die(shop, unit, number=9, incremental="at", primary_key=("id",))
    limit(shop.store.here, unit)

    row = shop.run(incremental="at", primary_key=("id",))

    assert (shop.feed.asks[-1].since, shop.feed.asks[-1].position) == (day(8), None)
    assert row.status is RunStatus.SUCCESS
    assert shop.ids() == list(range(1, 13))
    assert shop.marker().position == {"field": "at", "at": day(12)}


@pytest.mark.clause("run.own.marker-reconciles", "run.own.checkpoint-resume")
def test_a_checkpoints_marker_retires_nothing(shop: Shop, unit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash between a checkpoint's marker and the catalog: the owner stays, what is landed is replayed no more."""
    sixteen(shop)
    elsewhere = shop.store.stalled()
    limit(elsewhere, unit)
    monkeypatch.setattr(elsewhere.owners, "checkpoint", _dying)
    with pytest.raises(Died):
        shop.fire(shop.table(), engine=elsewhere, run_id="dead")
    shop.store.clock.advance(LEASE + 1)
    owner = shop.owner()
    asked = len(shop.feed.read)

    row = shop.run(run_id="next")

    assert owner is not None
    assert row.execution_id == owner.execution_id
    assert (row.rows, row.replayed, shop.feed.read[asked:]) == (12, 1, list(range(5, 16)))
    assert [marker.by.commit_id for marker in commits(shop)] == ["dead", "next"]
    assert shop.ids() == list(range(1, 17))


def _dying(*_: Any, **__: Any) -> None:
    raise Died


@pytest.mark.clause("run.own.marker-reconciles")
def test_a_final_marker_behind_another_attempts_commit_still_retires_its_owner(
    shop: Shop, unit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all markers that the catalog has not seen, those of the pending execution count, not the newest alone."""
    shop.feed.serves(page(1), page(2))
    elsewhere = shop.store.stalled()
    monkeypatch.setattr(elsewhere.owners, "retire", _dying)
    with pytest.raises(Died):
        shop.fire(shop.table(), engine=elsewhere)
    _another_commits(shop, 7)
    shop.store.clock.advance(LEASE + 1)
    pending = shop.owner()

    row = shop.run()

    assert pending is not None
    assert row.execution_id != pending.execution_id
    assert row.replayed == 0
    assert shop.ids() == [1, 2, 7]


def _another_commits(shop: Shop, number: int) -> None:
    """A machine whose own state knows of no pending owner writes into the same corpus, and moves no position."""
    elsewhere = replace(shop.store, opened=[], root=shop.store.root / "elsewhere").initialized()
    engine = elsewhere.engine()
    engine.profile = replace(engine.profile, objects=shop.store.here.profile.objects)
    pages, shop.feed.pages = shop.feed.pages, [*shop.feed.pages, page(number)]
    shop.fire(shop.table(), engine=engine)
    elsewhere.close()
    shop.feed.pages = pages


@pytest.mark.clause("run.own.checkpoint-resume", "run.own.checkpoint-landed")
def test_a_failure_behind_two_checkpoints_is_resumed_with_rows_once(shop: Shop, unit: int) -> None:
    limit(shop.store.here, unit)
    sixteen(shop)
    shop.feed.failures = {9: ValueError("tenth"), 13: ValueError("fourteenth")}

    rows = [shop.run() for _ in range(3)]

    assert [(row.status, row.rows) for row in rows] == [
        (RunStatus.FAILED, 8), (RunStatus.FAILED, 4), (RunStatus.SUCCESS, 4)]  # fmt: skip
    assert len({row.execution_id for row in rows}) == 1
    assert shop.ids() == list(range(1, 17))
    assert sorted(shop.feed.read) == sorted([*range(16), 9, 13]), "only what failed is asked again"


@pytest.mark.clause("run.own.checkpoint-commit", "run.own.checkpoint-resume")
def test_a_table_reads_alike_with_checkpoints_without_and_after_deaths(shop: Shop, unit: int) -> None:
    sixteen(shop)
    die(shop, unit, number=5)
    limit(shop.store.here, unit)
    shop.run()
    positions = [marker.position for marker in commits(shop)]

    assert positions == [4, 8, 12, 16], "who replays the same pulls decides alike"
    assert all(one.committed_at < other.committed_at for one, other in pairwise(commits(shop)))
    assert shop.read("SELECT id, _row_seq FROM orders ORDER BY id") == [(n, (n - 1) % 4) for n in range(1, 17)]


@pytest.mark.clause("run.own.checkpoint-run-id", "run.own.checkpoint-landed", "run.retry.resume-at")
def test_an_attempt_that_waited_behind_a_checkpoint_counts_its_commits_on(shop: Shop, unit: int) -> None:
    """It goes on under the same run id: no commit of its later life takes the name of an earlier one."""
    limit(shop.store.here, unit)
    sixteen(shop)
    shop.feed.failures = {9: RateLimited("later", wait_ms=3_600_000)}

    waiting = shop.run(run_id="r")
    shop.store.clock.advance(3_600_001)
    done = shop.run()

    assert (waiting.status, waiting.rows) == (RunStatus.WAITING, 8)
    assert (done.run_id, done.status, done.rows) == ("r", RunStatus.SUCCESS, 16)
    assert [marker.by.commit_id for marker in commits(shop)] == ["r", "r.000001", "r.000002", "r.000003"]
    assert shop.ids() == list(range(1, 17))
