"""What a checkpoint leaves to a run that goes on: after a death, a failure or a wait."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import RateLimited
from engine.shapes import RunStatus
from engine.sql import call
from tests.pipeline.checkpoints.conftest import commits, limit, page, sixteen
from tests.pipeline.conftest import day
from tests.stores import LEASE, Died

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.pipeline.walk import Landing
    from engine.runs import RunRow
    from tests.pipeline.conftest import Shop


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
