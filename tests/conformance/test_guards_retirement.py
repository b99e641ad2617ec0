"""No retirement and no statement, whoever writes it, moves an owner or a lease out from under a guard (rule G8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.errors import (
    ExecutionPending,
    ExecutionTransferBlocked,
    Refused,
    StepFailed,
    Transient,
)
from engine.fences import Fences
from engine.pipeline.chunks import Chunk, Window
from engine.ports import Call, Statement
from engine.reset import drop
from engine.reset import standing as stands
from engine.rewind import rewind, rewind_window
from engine.shapes import RunStatus
from engine.stop import stop
from tests.guarded import ONCE, admitted, engine_for, exits, guards, internal, left_sending, receipt, reconcile
from tests.stores import LEASE, Effect, Store, failing

if TYPE_CHECKING:
    from engine.guards.asked import Admitted

CUSTOMER = "entity:customers:42"


def raw(text: str) -> Call:
    """A statement that nobody has written yet."""
    return Call(Statement("raw", text, (), reads=False, durable=True), {})


def guarded(store: Store, scope: str = "job:score") -> Admitted:
    """A guard over an owner and a lease, held by this engine."""
    fence = Fences(store.here.profile.database).take(CUSTOMER, holder=store.here.leases.holder)
    assert fence is not None
    return admitted(store.here, internal(store.here, scope), fences=(fence,), window=None)


OWNER_MOVES = {
    "taken over": "UPDATE owners SET attempt = 'r-other', holder = 'h-other' WHERE scope = 'job:score'",
    "handed to another attempt": "UPDATE owners SET attempt = 'r-other' WHERE scope = 'job:score'",
    "handed to another holder": "UPDATE owners SET holder = 'h-other' WHERE scope = 'job:score'",
    "handed to another attempt, held by nobody": (
        "UPDATE owners SET attempt = 'r-other', holder = NULL WHERE scope = 'job:score'"
    ),
    "left to its holder without an attempt": "UPDATE owners SET attempt = NULL WHERE scope = 'job:score'",
    "made another execution's": "UPDATE owners SET execution_id = 'x-other' WHERE scope = 'job:score'",
    "renamed": "UPDATE owners SET scope = 'job:elsewhere' WHERE scope = 'job:score'",
    "finished": "UPDATE owners SET finished_at = 1 WHERE scope = 'job:score'",
    "deleted": "DELETE FROM owners WHERE scope = 'job:score'",
    "deleted with all": "DELETE FROM owners",
    "replaced": """INSERT OR REPLACE INTO owners (scope, execution_id, pins, plan_ref, opened_at)
                   VALUES ('job:score', 'x-other', 'p', 'p', 1)""",
    "upserted": """INSERT INTO owners (scope, execution_id, pins, plan_ref, opened_at)
                   VALUES ('job:score', 'x-other', 'p', 'p', 1)
                   ON CONFLICT (scope) DO UPDATE SET execution_id = excluded.execution_id""",
    "pushed out by a rename": "UPDATE OR REPLACE owners SET scope = 'job:score' WHERE scope = 'job:other'",
}

LEASE_MOVES = {
    "taken over": f"UPDATE leases SET holder = 'h-other' WHERE key = '{CUSTOMER}'",
    "fenced higher": f"UPDATE leases SET fence = fence + 1 WHERE key = '{CUSTOMER}'",
    "renamed": f"UPDATE leases SET key = 'entity:elsewhere' WHERE key = '{CUSTOMER}'",
    "deleted": "DELETE FROM leases",
    "replaced": f"INSERT OR REPLACE INTO leases (key, holder, fence) VALUES ('{CUSTOMER}', 'h-other', 1)",
    "pushed out by a rename": f"UPDATE OR REPLACE leases SET key = '{CUSTOMER}' WHERE key = 'entity:other'",
}


@pytest.mark.clause("run.journal.d1-guard", "run.callback-guard.scope")
@pytest.mark.parametrize("move", OWNER_MOVES)
def test_a_guarded_owner_is_not(store: Store, move: str) -> None:
    guarded(store)
    internal(store.here, "job:other")
    database = store.here.profile.database
    before = store.here.owners.all()

    with pytest.raises(Refused, match="guarded"):
        database.run(raw(OWNER_MOVES[move]))

    assert store.here.owners.all() == before


@pytest.mark.clause("run.journal.d1-guard", "run.callback-guard.scope")
@pytest.mark.parametrize("move", LEASE_MOVES)
def test_a_guarded_lease_is_not(store: Store, move: str) -> None:
    guarded(store)
    fences = Fences(store.here.profile.database)
    fences.take("entity:other", holder=store.here.leases.holder)
    before = fences.read(CUSTOMER)

    with pytest.raises(Refused, match="guarded"):
        store.here.profile.database.run(raw(LEASE_MOVES[move]))

    assert fences.read(CUSTOMER) == before


@pytest.mark.clause("run.callback-guard.scope")
def test_rows_beside_a_guarded_one_move_as_ever(store: Store) -> None:
    guarded(store)
    other = internal(store.here, "job:other")
    fences = Fences(store.here.profile.database)
    fence = fences.take("entity:other", holder=store.here.leases.holder)
    assert fence is not None

    other.retire(other.ended(RunStatus.SUCCESS))
    released = fences.release(fence)

    assert store.here.owners.read("job:other") is None
    assert released
    again = fences.take("entity:other", holder=store.here.leases.holder)
    assert again is not None
    assert again.fence == fence.fence + 1
    store.here.profile.database.run(raw("DELETE FROM leases WHERE key = 'entity:other'"))
    assert fences.read("entity:other") is None


@pytest.mark.clause("run.callback-guard.scope", "run.journal.d1-guard")
def test_renewal_is_no_move_and_goes_on_under_a_guard(store: Store) -> None:
    guarded(store)
    store.clock.advance(LEASE // 2)

    store.here.leases.register()

    owner = store.here.owners.read("job:score")
    assert owner is not None
    assert owner.lease_until == store.clock.now() + LEASE


@pytest.mark.clause("run.journal.d1-guard")
@pytest.mark.parametrize("how", ["retire", "finish"])
def test_success_refuses_while_a_guard_stands(store: Store, how: str) -> None:
    held = internal(store.here, "job:score")
    guard = admitted(store.here, held, window=None)

    with pytest.raises(ExecutionTransferBlocked) as refusal:
        getattr(held, how)(held.ended(RunStatus.SUCCESS))

    assert refusal.value.token == guard.token
    assert store.run(held.attempt.run_id).status is RunStatus.RUNNING
    assert [entry.key.step for entry in store.entries(held.attempt.execution_id)] == ["send"]


@pytest.mark.clause("run.journal.d1-guard")
@pytest.mark.parametrize("once", [True, False])
def test_an_execution_that_goes_on_past_its_guard_ends_failed_and_keeps_its_owner(store: Store, once: bool) -> None:
    engine = engine_for(store, window=None)
    execution = store.open(engine=engine, once=once)
    with pytest.raises(ExecutionTransferBlocked):
        execution.step("send", Effect(failing(Transient("no answer"))), schedule=ONCE, destination="vendor")

    with pytest.raises(ExecutionTransferBlocked):
        execution.close()

    owner = store.owner()
    assert owner is not None
    assert (owner.attempt, owner.finished_at) == (None, None)
    assert store.run(execution.run_id).status is RunStatus.FAILED
    reconcile(store, guards(store)[0], receipt(guards(store)[0], "absent"))
    assert store.open(engine=engine, once=once).execution_id == execution.execution_id


@pytest.mark.clause("run.journal.d1-guard", "run.own.rewind")
@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize("window", [None, 3_600_000])
def test_a_rewind_refuses_while_a_guard_stands_forced_or_not(store: Store, force: bool, window: int | None) -> None:
    dead = left_sending(store, window=window)

    with pytest.raises(ExecutionTransferBlocked) as refusal:
        rewind(store.here, dead.execution.execution_id, reason="start over", force=force)

    assert refusal.value.token == dead.guard.token
    assert guards(store) == [dead.guard]
    assert store.owner() is not None
    assert store.entries(dead.execution.execution_id)


@pytest.mark.clause("run.journal.d1-guard", "run.own.rewind")
def test_a_rewind_that_met_a_guard_between_its_look_and_its_batch_retires_nothing(store: Store) -> None:
    dead = left_sending(store)
    owner = store.owner()
    assert owner is not None

    with pytest.raises(ExecutionTransferBlocked):
        store.here.owners.withdraw(owner)

    assert store.owner() == owner
    assert store.entries(dead.execution.execution_id)


@pytest.mark.clause("run.journal.d1-guard", "run.own.pin-mismatch-recovery")
def test_a_rewind_of_a_window_retires_none_of_it_where_one_chunk_is_guarded(store: Store) -> None:
    engine = store.stalled()
    window = Window("2026-01-01", "2026-01-03")
    chunks = [Chunk("orders", Window("2026-01-01", "2026-01-02")), Chunk("orders", Window("2026-01-02", "2026-01-03"))]
    held = [internal(engine, chunk.scope) for chunk in chunks]
    admitted(engine, held[1], window=None)
    store.clock.advance(LEASE)

    with pytest.raises(ExecutionTransferBlocked):
        rewind_window(store.here, "orders", window, reason="start over", force=True, pipelines={})

    assert [owner.scope for owner in store.here.owners.all()] == [chunk.scope for chunk in chunks]


@pytest.mark.clause("run.journal.d1-guard")
def test_a_guarded_table_is_neither_reset_nor_dropped(store: Store) -> None:
    engine = store.stalled()
    admitted(engine, internal(engine, "table:orders"), window=None)
    exits(store, engine)
    store.clock.advance(LEASE)

    with pytest.raises(ExecutionPending):
        stands(store.here, "orders")
    with pytest.raises(ExecutionPending):
        drop(store.here, "orders")

    assert len(guards(store)) == 1
    assert store.here.owners.read("table:orders") is not None


@pytest.mark.clause("run.journal.d1-guard", "run.cancel.resumable-remains")
def test_a_stop_of_a_waiting_run_leaves_its_guard_and_its_owner(store: Store) -> None:
    held = internal(store.here, "job:score")
    guard = admitted(store.here, held, window=None)
    waiting = held.run.waiting(store.clock.now() + 1, failure=Transient("later"))
    store.here.owners.park(held.attempt, run=waiting, wake_at=store.clock.now() + 1)

    stop(store.here.profile, held.attempt.run_id)

    assert store.run(held.attempt.run_id).status is RunStatus.CANCELED
    assert [each.token for each in guards(store)] == [guard.token]
    with pytest.raises(ExecutionTransferBlocked):
        internal(store.engine(), "job:score")


@pytest.mark.clause("run.journal.d1-guard", "run.record.orphan-reap")
def test_the_reaping_of_orphans_skips_an_attempt_that_a_guard_names(store: Store) -> None:
    dead = left_sending(store, window=None)
    engine = store.engine()
    skipped = store.run(dead.execution.run_id).status
    reconcile(store, dead.guard, receipt(dead.guard, "absent"))

    reaped = engine.reap()

    assert skipped is RunStatus.RUNNING
    assert [row.run_id for row in reaped] == [dead.execution.run_id]


@pytest.mark.clause("run.journal.guard-callback")
def test_a_callback_moves_its_own_owner_by_no_branch_of_its_own_either(store: Store) -> None:
    execution = store.open(engine=engine_for(store))

    def close() -> None:
        execution.join("inside", {"close": lambda _: execution.close()})

    with pytest.raises(StepFailed, match="cannot move it"):
        execution.step("send", Effect(close), schedule=ONCE, destination="vendor")

    assert store.owner() is not None


@pytest.mark.clause("run.journal.guard-callback")
def test_a_callback_calls_no_destination_by_a_branch_either_and_waits_for_none(store: Store) -> None:
    execution = store.open(engine=engine_for(store))
    nested = Effect()

    def send() -> None:
        execution.join("inside", {"nested": lambda branch: branch.step("nested", nested, destination="vendor")})

    with pytest.raises(StepFailed, match="from inside the callback"):
        execution.step("send", Effect(send), schedule=ONCE, destination="vendor")

    assert nested.calls == 0
