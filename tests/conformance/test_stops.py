"""Stops: a mark in the catalog is what asks, one token a run is what hears, and nothing is left at work behind it."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from engine.catalog import rebuild
from engine.errors import (
    Canceled,
    CancelTargetNotInFlight,
    StorageUnusable,
    Transient,
)
from engine.execution.stopping import POLL_MS
from engine.shapes import RunStatus
from engine.sql import call
from engine.stop import stop
from engine.stops import StopScope
from tests.stops import polled
from tests.stores import LEASE, Effect, Store

if TYPE_CHECKING:
    from engine.execution.held import Held
    from engine.runs import RunRow
    from tests.clocks import SettableClock


def heard(held: Held) -> bool:
    """Whether the token is tripped within seconds: the keeper works on a thread of its own."""
    return held.cancellation._event.wait(5)


def reason(held: Held) -> str:
    with pytest.raises(Canceled) as stopped:
        held.cancellation.check()
    return str(stopped.value)


@pytest.mark.clause("run.cancel.catalog-channel")
def test_a_request_stands_on_the_run_row_with_its_instant_scope_and_reason(store: Store, clock: SettableClock) -> None:
    execution = store.open()
    clock.advance(7)

    marked = stop(store.profile(), execution.run_id, scope=StopScope.PIPELINE, reason="wrong month")

    assert marked == [execution.run_id]
    standing = {"requested_at": clock.now(), "scope": "pipeline", "reason": "wrong month"}
    assert store.run(execution.run_id).stop == standing
    assert store.run(execution.run_id).projection()["stop"]["requested_at"] == "2027-01-15T08:00:00.007Z"
    execution.close()


@pytest.mark.clause("run.cancel.catalog-channel")
def test_a_newer_request_overwrites_an_older_one(store: Store, clock: SettableClock) -> None:
    execution = store.open()
    stop(store.profile(), execution.run_id, scope=StopScope.PIPELINE, reason="wrong month")
    clock.advance(1)

    stop(store.profile(), execution.run_id)

    assert store.run(execution.run_id).stop == {"requested_at": clock.now(), "scope": "run", "reason": None}
    execution.close()


@pytest.mark.clause("run.cancel.catalog-channel")
def test_a_mark_alone_reaches_a_run_of_another_engine(store: Store) -> None:
    elsewhere = store.engine()
    held = store.held(engine=elsewhere)

    stop(store.here.profile, held.attempt.run_id, reason="wrong month")
    polled(store, elsewhere)

    assert heard(held)
    assert reason(held) == "stopped on request: wrong month"


@pytest.mark.clause("run.cancel.catalog-channel", "run.record.rebuild-restores-history")
def test_a_rebuilt_catalog_keeps_every_request(store: Store) -> None:
    execution = store.open()
    stop(store.profile(), execution.run_id, reason="wrong month")
    mark = store.run(execution.run_id).stop

    rebuild(store.profile(), declared=())

    assert store.run(execution.run_id).stop == mark
    execution.close()


@pytest.mark.clause("run.cancel.host-grain", "run.cancel.two-grains")
def test_a_pipeline_stop_of_a_host_run_reaches_its_host_scope_and_no_other(store: Store, clock: SettableClock) -> None:
    first, second = store.stalled(), store.stalled()
    overtaken = store.held("ours", engine=first)
    clock.advance(LEASE)
    active, other = store.held("ours", engine=second), store.held("other", engine=second)

    marked = stop(store.profile(), active.attempt.run_id, scope=StopScope.PIPELINE)

    # Who was overtaken is closed by then and no longer in flight.
    assert store.run(overtaken.attempt.run_id).status is RunStatus.PARTIAL_FAILURE
    assert marked == [active.attempt.run_id]
    assert store.run(other.attempt.run_id).stop is None


@pytest.mark.clause("run.cancel.two-grains")
def test_a_run_stop_reaches_that_run_alone(store: Store) -> None:
    held = [store.held(scope) for scope in ("one", "two")]

    stop(store.profile(), held[0].attempt.run_id)
    polled(store)

    assert heard(held[0])
    held[1].cancellation.check()


@pytest.mark.clause("run.cancel.two-grains")
def test_a_stored_scope_nobody_knows_reads_as_run(store: Store) -> None:
    execution = store.open()

    store.here.profile.database.run(call("stop_runs", run_id=execution.run_id, scope="galaxy", reason=None))

    row = store.run(execution.run_id)
    assert row.stop is not None
    assert row.stop["scope"] == "run"
    execution.close()


@pytest.mark.clause("run.cancel.poll-interval")
def test_the_marks_are_read_every_half_second(store: Store, clock: SettableClock) -> None:
    held = store.held()
    assert POLL_MS == 500
    clock.advance(499)
    store.here.keeper.wake()
    stop(store.profile(), held.attempt.run_id)
    store.here.keeper.wake()
    early = held.cancellation._event.wait(0.1)

    clock.advance(1)
    store.here.keeper.wake()

    assert not early
    assert heard(held)


@pytest.mark.clause("run.cancel.poll-interval", "run.cancel.engine-keeper")
def test_one_read_serves_all_that_an_engine_has_open(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    held = [store.held(f"job-{number}") for number in range(20)]
    reads = []
    run = store.here.stopping._db.run
    seen = threading.Event()

    def counted(*calls: Any) -> Any:
        reads.append(calls)
        seen.set()
        return run(*calls)

    database = type("Counted", (), {"run": staticmethod(counted)})()
    monkeypatch.setattr(store.here.stopping, "_db", database)
    polled(store)

    assert seen.wait(5)
    assert len(reads) == 1
    assert len(held) == 20


@pytest.mark.clause("run.cancel.poll-interval")
def test_a_run_that_is_marked_before_its_first_step_does_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = store.here.owners.open

    def marked_at_once(*arguments: Any, **options: Any) -> Any:
        attempt = opened(*arguments, **options)
        stop(store.here.profile, attempt.attempt.run_id)
        return attempt

    monkeypatch.setattr(store.here.owners, "open", marked_at_once)
    effect = Effect()

    with pytest.raises(Canceled), store.open() as execution:
        execution.step("one", effect)

    assert effect.calls == 0
    assert store.statuses() == [RunStatus.CANCELED]


@pytest.mark.clause("run.cancel.storage-blip")
def test_a_read_that_fails_is_warned_of_and_the_next_one_hears(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    held = store.held()
    stop(store.profile(), held.attempt.run_id)
    failed = threading.Event()

    def away(*_: Any) -> NoReturn:
        failed.set()
        raise StorageUnusable(place="the catalog", reason="away for a moment")

    with monkeypatch.context() as blip, caplog.at_level(logging.WARNING, logger="contextful"):
        blip.setattr(store.here.stopping, "_db", type("Away", (), {"run": staticmethod(away)})())
        polled(store)
        assert failed.wait(5)
        store.held("opened meanwhile").cancellation.check()
    polled(store)

    assert heard(held)
    assert "a keeper job failed" in caplog.text
    assert "is asked to stop could not be read" in caplog.text


@pytest.mark.clause("run.cancel.not-in-flight")
@pytest.mark.parametrize("ending", [None, Transient("cut off"), Canceled("interrupted")])
def test_a_run_that_has_ended_takes_no_mark(store: Store, ending: Exception | None) -> None:
    execution = store.open()
    execution.step("one", Effect())
    execution.close(failure=ending)  # type: ignore[arg-type] # parametrized
    status = str(store.run(execution.run_id).status)

    with pytest.raises(CancelTargetNotInFlight) as refusal:
        stop(store.profile(), execution.run_id)

    assert refusal.value.facts == {"run_id": execution.run_id, "status": status}
    assert refusal.value.exit_code == 1
    assert store.run(execution.run_id).stop is None


@pytest.mark.clause("run.cancel.not-in-flight")
def test_a_run_nobody_recorded_takes_no_mark(store: Store) -> None:
    with pytest.raises(CancelTargetNotInFlight, match="r-never is not in flight: it is not recorded"):
        stop(store.profile(), "r-never", scope=StopScope.PIPELINE)


@pytest.mark.clause("run.cancel.authority-from-the-record")
def test_who_may_stop_is_asked_of_the_recorded_row_before_anything_is_marked(store: Store) -> None:
    execution = store.open("ours")
    asked: list[RunRow] = []

    def refuse(row: RunRow) -> None:
        asked.append(row)
        raise PermissionError

    with pytest.raises(PermissionError):
        stop(store.profile(), execution.run_id, scope=StopScope.PIPELINE, authorize=refuse)

    assert [row.host_scope for row in asked] == ["ours"]
    assert store.run(execution.run_id).stop is None
    execution.close()
