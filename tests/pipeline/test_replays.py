"""What a run recorded it lands, first time and replay alike, and asks for nothing of it again."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from engine.pipeline.recording import decode
from engine.pipeline.sources.file import Files
from engine.pipeline.sources.http import HttpPages
from engine.pipeline.sources.python import PythonPulls
from engine.shapes import Pull, RunStatus
from engine.sql import call
from tests.pipeline.conftest import Shop, orders
from tests.stores import LEASE, Died

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.pipeline.source import Ask
    from engine.pipeline.walk import Landing
    from engine.shapes import Entry
    from tests.pipeline.conftest import Api


@pytest.mark.clause("run.journal.recorded-batch")
def test_a_pull_is_recorded_guarded_and_before_it_is_staged(shop: Shop) -> None:
    secret = "ghp_" + "a" * 36
    seen: list[tuple[int, str]] = []

    def look(_: Any, landing: Landing) -> None:
        (entry,) = entries(shop)
        recorded = shop.store.here.profile.journal.value(entry)
        assert recorded == landing.recorded
        batch, meta = decode(recorded)
        seen.append((meta.skipped, batch.to_pylist()[0]["note"]))
        assert secret.encode() not in recorded

    shop.feed.serves([{"id": 1, "note": f"key {secret}"}], skipped=3)
    outcome = shop.fire(shop.table(), look=look)

    ((skipped, note),) = seen
    assert skipped == 3
    assert note.startswith("key ")
    assert secret not in note
    assert outcome.runs[0].masked == 1
    assert shop.read("SELECT note FROM orders") == [(note,)]


@pytest.mark.clause("run.journal.recorded-batch")
def test_a_run_that_dies_between_record_and_stage_lands_what_was_recorded(shop: Shop) -> None:
    shop.feed.serves(orders(1))

    def die(*_: Any) -> None:
        raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engine.pipeline.stage.Stage._write", die)
        with pytest.raises(Died):
            shop.run(engine=shop.store.stalled())
    shop.store.clock.advance(LEASE + 1)

    row = shop.run(engine=shop.store.engine())

    assert (row.status, row.replayed, shop.feed.read, shop.ids()) == (RunStatus.SUCCESS, 1, [0], [1])


@pytest.mark.clause("run.journal.replay-lands", "run.retry.partial-failure")
def test_a_resumed_run_asks_from_the_failed_page_and_lands_the_bytes_of_an_uninterrupted_one(shop: Shop) -> None:
    pages = [[{"id": n, "note": None if n % 2 else "ü" * n, "nested": {"n": [n]}}] for n in range(4)]
    whole = _landed(shop, pages, failing=False)
    shop.store.here.profile.objects.delete(list(shop.store.here.profile.objects.list("orders/")))

    resumed = _landed(shop, pages, failing=True)

    assert resumed == whole
    assert [number for number, _ in resumed] == [0, 1, 2, 3]


def _landed(shop: Shop, pages: list[Any], *, failing: bool) -> list[tuple[int, str]]:
    """Ordinal and digest of each staged pull of the run that succeeds, its rows of one table otherwise empty."""
    found: list[tuple[int, str]] = []

    def look(_: Any, landing: Landing) -> None:
        assert landing.recorded is not None
        found.append((landing.number, hashlib.sha256(landing.recorded).hexdigest()))

    shop.module.script = lambda ask: iter([pull for pull in _pulls(pages) if pull.position > (ask.position or 0)])
    if failing:
        shop.module.script = lambda ask: _failing(pages, ask)
        assert shop.fire(shop.table()).runs[0].status is RunStatus.FAILED
        shop.module.script = lambda ask: iter([pull for pull in _pulls(pages) if pull.position > ask.position])
    (row,) = shop.fire(shop.table(), look=look).runs
    assert (row.status, row.replayed) == (RunStatus.SUCCESS, 2 if failing else 0)
    return found


def _pulls(pages: list[Any]) -> list[Pull]:
    return [Pull(rows=rows, position=n + 1, more=n + 1 < len(pages)) for n, rows in enumerate(pages)]


def _failing(pages: list[Any], _: Ask) -> Iterator[Pull]:
    yield from _pulls(pages)[:2]
    raise ValueError("the third page")


@pytest.mark.clause("run.journal.opt-out")
def test_an_empty_pull_leaves_no_row_and_is_asked_again(shop: Shop) -> None:
    shop.feed.serves(orders(1), [], orders(2), orders(3))
    shop.feed.failures = {3: ValueError("fourth page")}

    failed = shop.run()

    assert [entry.key.step for entry in entries(shop) if entry.recorded] == ["pull:0", "pull:2"]
    resumed = shop.run()
    assert (failed.batches, resumed.batches, resumed.replayed) == (3, 4, 2)
    assert shop.feed.read == [0, 1, 2, 3, 1, 3]
    assert shop.ids() == [1, 2, 3]


@pytest.mark.clause("run.journal.opt-out", "run.journal.escape-hatch")
def test_a_source_that_opted_out_is_asked_again_and_holds_no_owner(shop: Shop) -> None:
    shop.feed.serves(orders(1), orders(2))
    shop.feed.failures = {1: ValueError("second page")}

    failed = shop.run(entry="moving")

    assert (failed.status, shop.owner()) == (RunStatus.FAILED, None)
    again = shop.run(entry="moving")
    assert (again.status, again.replayed, shop.feed.read) == (RunStatus.SUCCESS, 0, [0, 1, 0, 1])
    assert shop.ids() == [1, 2]


@pytest.mark.clause("run.journal.opt-out")
def test_each_connector_declares_whether_it_journals(shop: Shop) -> None:
    """Pinned: a connector that stops journaling does so here, with its argument."""
    assert (HttpPages.journaled, Files.journaled) == (True, True)
    assert {entry: PythonPulls(shop.table(entry=entry)).journaled for entry in ("pulls", "snapshots", "moving")} == {
        "pulls": True, "snapshots": True, "moving": False,
    }  # fmt: skip


@pytest.mark.clause("run.journal.ledger-settles-first")
def test_no_batch_is_recorded_before_its_requests_are_settled(
    shop: Shop, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.pages = [orders(1), orders(2), orders(3)]
    database = shop.store.here.profile.database
    run = type(database).run
    seen: list[tuple[int, int]] = []

    def counted(self: Any, *calls: Any) -> Any:
        results = run(self, *calls)
        if self is database and {c.statement.name for c in calls} & {"settle_requests", "record_entry"}:
            execution = shop.owner()
            assert execution is not None
            requests = run(database, call("list_requests", execution_id=execution.execution_id))[0]
            settled = sum(settled_at is not None for *_, settled_at, _ in requests)
            seen.append((sum(entry.recorded for entry in entries(shop)), settled))
        return results

    monkeypatch.setattr(type(database), "run", counted)
    (row,) = shop.fire(api.table()).runs

    assert row.status is RunStatus.SUCCESS
    assert [settled for _, settled in seen] == [1, 2, 3], "the settlement is one batch, the record's own or before it"
    assert all(recorded <= settled for recorded, settled in seen)


@pytest.mark.clause("run.journal.idempotency-key", "run.journal.replay-lands")
def test_a_page_asked_again_carries_the_same_key_and_no_replayed_page_is_asked(shop: Shop, api: Api) -> None:
    api.pages = [orders(1), orders(2)]
    api.refusals = {1: (404, {})}
    assert shop.fire(api.table()).runs[0].status is RunStatus.FAILED

    (row,) = shop.fire(api.table()).runs

    assert row.status is RunStatus.SUCCESS
    assert api.asked == ["/orders", "/orders?page=1", "/orders?page=1"]
    keys = [headers["idempotency-key"] for headers in api.headers]
    assert keys[1] == keys[2] != keys[0]


def entries(shop: Shop) -> list[Entry]:
    """What the journal holds of the pending execution of `orders`."""
    owner = shop.owner()
    assert owner is not None
    return shop.store.here.profile.journal.entries(owner.execution_id)
