"""Rewinding: what is retired, what is refused, what is recorded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from engine.errors import (
    ExecutionLive,
    ExecutionPinMismatch,
    ExecutionRewindNotPending,
    ExecutionRewindPlanCurrent,
    ExecutionRewindUnsafe,
)
from engine.rewind import rewind
from engine.shapes import Awakeable, RunStatus
from engine.sql import call
from tests.stores import LEASE, Effect
from tests.waits import parked

if TYPE_CHECKING:
    from engine.execution.execution import Execution
    from tests.cli.conftest import Shell
    from tests.clocks import SettableClock
    from tests.stores import Store


def dead(store: Store, clock: SettableClock) -> Execution:
    """An execution with one recorded step, whose process died and whose lease has lapsed."""
    execution = store.elsewhere()
    execution.step("one", Effect())
    execution.closed = True
    clock.advance(LEASE + 1)
    store.here.reap()
    return execution


def looks_no_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever rewinds has looked at the owners already: what comes from now on is met in the batch alone."""
    seen = store.here.owners.all()
    monkeypatch.setattr(store.here.owners, "all", lambda: seen)


def another_plan_asked(store: Store) -> None:
    with pytest.raises(ExecutionPinMismatch):
        store.open(plan="plan-b")


@pytest.mark.clause("run.own.rewind", "run.own.rewind-plan-current", "run.journal.collection")
def test_after_a_rewind_the_next_open_claims_a_fresh_execution_under_the_new_plan(
    store: Store, clock: SettableClock
) -> None:
    execution = dead(store, clock)
    another_plan_asked(store)

    rewind(store.here, execution.execution_id, reason="plan b it is")

    with store.open(plan="plan-b") as fresh:
        assert fresh.execution_id != execution.execution_id
        assert fresh.step("one", Effect("anew")) == "anew"
    assert store.owner() is None
    assert store.entries(execution.execution_id) == []


@pytest.mark.clause("run.own.rewind-record")
def test_a_rewind_leaves_one_canceled_row_started_at_the_owners_open(store: Store, clock: SettableClock) -> None:
    execution = dead(store, clock)
    another_plan_asked(store)
    owner = store.owner()
    assert owner is not None

    row = rewind(store.here, execution.execution_id, reason="plan b it is")

    assert row == store.run(row.run_id)
    assert (row.status, row.execution_id, row.plan_ref) == (RunStatus.CANCELED, execution.execution_id, "plan-a")
    assert (row.host_scope, row.reason, row.started_at) == ("job", "plan b it is", owner.opened_at)
    assert row.ended_at == clock.now()
    assert store.statuses().count(RunStatus.CANCELED) == 1
    assert row in list(store.here.history.rows())


@pytest.mark.clause("run.own.rewind-not-pending")
@pytest.mark.parametrize("ended", ["never opened", "completed", "retired"])
def test_what_is_not_pending_is_not_rewound(store: Store, clock: SettableClock, ended: str) -> None:
    execution_id = "x-000000000000000000000000"
    if ended == "completed":
        with store.open() as execution:
            execution_id = execution.execution_id
    if ended == "retired":
        execution_id = dead(store, clock).execution_id
        rewind(store.here, execution_id, reason="once", force=True)

    with pytest.raises(ExecutionRewindNotPending) as refusal:
        rewind(store.here, execution_id, reason="again", force=True)

    assert refusal.value.execution_id == execution_id


@pytest.mark.clause("run.own.rewind-not-pending")
def test_a_finished_execution_kept_for_once_is_not_pending(store: Store) -> None:
    with store.open(once=True) as execution:
        execution.step("one", Effect())

    with pytest.raises(ExecutionRewindNotPending):
        rewind(store.here, execution.execution_id, reason="gone", force=True)


@pytest.mark.clause("run.own.rewind-plan-current")
def test_an_owner_nobody_asked_another_plan_of_is_rewound_by_force_only(store: Store, clock: SettableClock) -> None:
    execution = dead(store, clock)

    with pytest.raises(ExecutionRewindPlanCurrent) as refusal:
        rewind(store.here, execution.execution_id, reason="impatience")

    assert refusal.value.plan_ref == "plan-a"
    assert store.recorded(execution.execution_id) == ["one"]
    rewind(store.here, execution.execution_id, reason="impatience", force=True)
    assert store.owner() is None


@pytest.mark.clause("run.own.rewind-plan-current")
def test_an_open_refused_for_a_live_attempt_alone_asked_no_other_plan(store: Store, clock: SettableClock) -> None:
    execution = store.elsewhere()
    execution.step("one", Effect())
    with pytest.raises(ExecutionLive):
        store.open()
    execution.closed = True
    clock.advance(LEASE + 1)

    with pytest.raises(ExecutionRewindPlanCurrent):
        rewind(store.here, execution.execution_id, reason="impatience")

    assert store.recorded(execution.execution_id) == ["one"]


@pytest.mark.clause("run.own.rewind-record")
def test_two_rewinds_at_one_instant_leave_one_row(
    store: Store, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = dead(store, clock)
    looks_no_more(store, monkeypatch)
    rewind(store.here, execution.execution_id, reason="first", force=True)

    rewind(store.here, execution.execution_id, reason="second", force=True)

    told = [row.reason for row in store.here.runs.since(0, ceiling=100) if row.status is RunStatus.CANCELED]
    assert told == ["first"]


@pytest.mark.clause("run.own.rewind-unsafe")
@pytest.mark.parametrize("force", [False, True])
def test_a_live_attempt_is_never_retired(store: Store, force: bool) -> None:
    execution = store.elsewhere()
    execution.step("one", Effect())

    with pytest.raises(ExecutionRewindUnsafe) as refusal:
        rewind(store.here, execution.execution_id, reason="now", force=force)

    assert execution.run_id in refusal.value.alive
    assert store.recorded(execution.execution_id) == ["one"]
    assert execution.step("two", Effect("goes on")) == "goes on"


@pytest.mark.clause("run.own.rewind-unsafe")
def test_a_wait_for_an_outside_party_protects_until_its_deadline(store: Store, clock: SettableClock) -> None:
    execution = dead(store, clock)
    awaited = Awakeable("t" * 32, execution.execution_id, "approval", clock.now(), clock.now() + 60_000)
    store.here.profile.awakeables.mint(awaited)

    with pytest.raises(ExecutionRewindUnsafe, match="approval"):
        rewind(store.here, execution.execution_id, reason="now", force=True)

    clock.advance(60_000)
    rewind(store.here, execution.execution_id, reason="now", force=True)


@pytest.mark.clause("run.own.rewind-unsafe")
def test_an_attempt_that_takes_the_owner_meanwhile_keeps_it(
    store: Store, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = dead(store, clock)
    looks_no_more(store, monkeypatch)
    resumed = store.elsewhere()

    with pytest.raises(ExecutionRewindUnsafe, match="has just taken"):
        rewind(store.here, execution.execution_id, reason="now", force=True)

    assert store.here.runs.get(f"rewind-{execution.execution_id}") is None
    assert resumed.step("one", Effect("never called")) == "done"


@pytest.mark.clause("run.own.rewind-unsafe")
def test_an_attempt_that_takes_the_owner_meanwhile_and_waits_keeps_it_too(
    store: Store, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = dead(store, clock)
    looks_no_more(store, monkeypatch)
    waiting = parked(store)

    with pytest.raises(ExecutionRewindUnsafe, match="has just taken"):
        rewind(store.here, execution.execution_id, reason="now", force=True)

    assert store.here.runs.get(f"rewind-{execution.execution_id}") is None
    assert store.run(waiting.run_id).status is RunStatus.WAITING


@pytest.mark.clause("run.own.rewind")
def test_a_rewound_tables_position_stays(shell: Shell) -> None:
    shell.orders()
    shell("pipeline", "run", "orders")
    shell.write("orders.jsonl", json.dumps({"id": 3, "at": "2026-01-03T00:00:00Z"}) + "\n")
    shell.write(
        "contextful.toml", shell.folder.joinpath("contextful.toml").read_text().replace("orders.jsonl", "*.jsonl")
    )
    shell.write("zz.jsonl", "{broken")
    assert shell("pipeline", "run", "orders").code == 1
    pending = shell.json("status")["pending"]
    before = shell.json("read", "SELECT * FROM orders ORDER BY id")

    for each in pending:
        assert shell("run", "rewind", each["execution_id"], "--reason", "bad file", "--force").code == 0

    assert shell.json("read", "SELECT * FROM orders ORDER BY id") == before
    assert shell.json("status")["pending"] == []
    (shell.folder / "zz.jsonl").unlink()
    again = shell.json("pipeline", "run", "orders")
    assert (again["runs"][0]["rows"], again["runs"][0]["not_admitted"]) == (1, 0)


def test_a_chunks_owner_is_left_to_its_windows_rewind(store: Store, clock: SettableClock) -> None:
    execution = dead(store, clock)
    database = store.here.profile.database
    owner = store.owner()
    assert owner is not None
    database.run(call("retire_owner", scope=owner.scope, execution_id=owner.execution_id))
    database.run(
        call("open_owner", scope="chunk:orders:1", execution_id=owner.execution_id, pins=owner.pins,
             plan_ref="plan-a", input_hash=None, run_id="gone", holder="h-gone")
    )  # fmt: skip

    with pytest.raises(ExecutionRewindNotPending):
        rewind(store.here, execution.execution_id, reason="now", force=True)


@pytest.mark.clause("run.own.rewind-not-pending")
def test_the_command_names_its_refusal(shell: Shell) -> None:
    shell.orders()

    ended = shell("run", "rewind", "x-1", "--reason", "why", "--json")

    assert ended.code == 1
    assert ended.err.startswith("ExecutionRewindNotPending: no pending table or host owner holds execution x-1; ")
    assert "contextful status" in ended.err
    assert ended.error["execution_id"] == "x-1"


def test_a_rewind_needs_a_reason(shell: Shell) -> None:
    shell.orders()

    assert shell("run", "rewind", "x-1").code == 2
