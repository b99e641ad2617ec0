"""What a guard protects, and what it leaves alone: owners, their ancestors, leases; bound all at once or not at all."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from engine.errors import ExecutionSuperseded, ExecutionTransferBlocked
from engine.fences import Fences
from engine.guards.rules import Kind, Mark
from engine.pipeline.declaration import Destination
from engine.shapes import RunStatus
from engine.sql import call
from tests.guarded import admitted, asked, engine_for, exits, guards, internal
from tests.stores import LEASE, Effect, Store

if TYPE_CHECKING:
    from engine.execution.execution import Execution
    from engine.execution.held import Held
    from engine.guards.asked import Fence
    from engine.host import Engine

CUSTOMER = "entity:customers:42"


def fenced(engine: Engine, key: str = CUSTOMER) -> Fence:
    fence = Fences(engine.profile.database).take(key, holder=engine.leases.holder)
    assert fence is not None
    return fence


def item(engine: Engine, name: str = "item:score:1") -> tuple[Held, Held, Fence]:
    """An item at work under its job and under the lease of its entity."""
    return internal(engine, name), internal(engine, "job:score"), fenced(engine)


@pytest.mark.clause("run.callback-guard.scope")
@pytest.mark.parametrize("scope", ["item:score:1", "job:score"])
def test_a_guard_of_an_item_keeps_its_owner_and_its_ancestors_from_takeover(store: Store, scope: str) -> None:
    held, job, fence = item(store.stalled())
    guard = admitted(store.here, held, above=(job,), fences=(fence,), window=None)
    store.clock.advance(LEASE)

    with pytest.raises(ExecutionTransferBlocked) as refusal:
        internal(store.here, scope)

    assert (refusal.value.token, refusal.value.scope) == (guard.token, scope)


@pytest.mark.clause("run.callback-guard.scope")
def test_a_guard_of_an_item_keeps_its_entitys_lease_from_takeover(store: Store) -> None:
    held, job, fence = item(store.stalled())
    guard = admitted(store.here, held, above=(job,), fences=(fence,), window=None)
    store.clock.advance(LEASE)

    with pytest.raises(ExecutionTransferBlocked) as refusal:
        fenced(store.here)

    assert refusal.value.token == guard.token
    assert Fences(store.here.profile.database).read(CUSTOMER).fence == fence.fence  # type: ignore[union-attr]


@pytest.mark.clause("run.callback-guard.scope")
def test_beside_a_guarded_item_another_jobs_admission_and_an_export_go_on(store: Store) -> None:
    held, job, fence = item(store.stalled())
    admitted(store.here, held, above=(job,), fences=(fence,), window=None)
    other, export = internal(store.here, "job:other"), internal(store.here, "export:orders")

    admitted(store.here, other)
    admitted(store.here, export, kind=Kind.PUBLICATION)

    assert {each.scopes for each in guards(store)} == {
        ("item:score:1", "job:score"),
        ("job:other",),
        ("export:orders",),
    }


@pytest.mark.clause("run.callback-guard.scope")
def test_an_unprotected_owner_transfers_beside_a_guard(store: Store) -> None:
    engine = store.stalled()
    held, job, fence = item(engine)
    internal(engine, "item:score:2")
    admitted(store.here, held, above=(job,), fences=(fence,), window=None)
    store.clock.advance(LEASE)

    taken = internal(store.here, "item:score:2")

    assert taken.resumed


@pytest.mark.clause("run.callback-guard.scope")
def test_under_a_guard_of_the_job_alone_an_item_transfers_and_its_next_callback_waits_on_the_job(store: Store) -> None:
    engine = store.stalled()
    held, job, _ = item(engine)
    guard = admitted(store.here, job, window=None)
    store.clock.advance(LEASE)

    taken = internal(store.here, held.attempt.scope)
    wanted = asked(store.here, taken, above=(job,))
    with pytest.raises(ExecutionTransferBlocked) as refusal:
        store.here.profile.admission.admit(wanted)

    assert refusal.value.token == guard.token
    store.here.profile.admission.settle(guard, Mark.CLEARED)
    store.here.profile.admission.admit(wanted)
    assert [each.scopes for each in guards(store)] == [("item:score:1", "job:score")]


@pytest.mark.clause("run.callback-guard.acquire")
def test_two_callbacks_on_disjoint_rows_are_out_at_once(store: Store) -> None:
    engine = engine_for(store)
    first, second = store.open("first", engine=engine), store.open("second", engine=engine)
    both = threading.Barrier(2, timeout=30)

    def send(execution: Execution) -> None:
        execution.step("send", Effect(both.wait), destination="vendor")

    threads = [threading.Thread(target=send, args=(each,)) for each in (first, second)]
    with store.clock.standing():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

    assert [store.recorded(each.execution_id) for each in (first, second)] == [["send"], ["send"]]


@pytest.mark.clause("run.callback-guard.acquire")
def test_of_two_callbacks_that_share_a_row_the_second_is_not_admitted_and_binds_nothing(store: Store) -> None:
    first, job, _ = item(store.here)
    second = internal(store.here, "item:score:2")
    guard = admitted(store.here, first, above=(job,))

    with pytest.raises(ExecutionTransferBlocked) as refusal:
        admitted(store.here, second, above=(job,))

    assert refusal.value.token == guard.token
    assert [each.scopes for each in guards(store)] == [("item:score:1", "job:score")]
    assert store.recorded(second.attempt.execution_id) == []
    assert not [each for each in store.entries(second.attempt.execution_id) if each.claim or each.doubts]


@pytest.mark.clause("run.callback-guard.acquire")
def test_callbacks_of_one_execution_go_out_one_at_a_time(store: Store) -> None:
    execution = store.open(engine=engine_for(store))
    inside, most = [], []

    def send() -> None:
        inside.append(1)
        most.append(len(inside))
        threading.Event().wait(0.02)
        inside.pop()

    with store.clock.standing():
        execution.join(
            "all",
            {
                str(number): lambda branch: branch.step("send", Effect(send), destination="vendor")
                for number in range(4)
            },
        )

    assert most == [1, 1, 1, 1]
    assert guards(store) == []


@pytest.mark.clause("run.callback-guard.acquire")
@pytest.mark.parametrize("stale", ["owner", "ancestor", "fence", "holder of the fence"])
def test_one_row_that_is_not_as_the_caller_knows_it_binds_none(store: Store, stale: str) -> None:
    held, job, fence = item(store.here)
    wanted = asked(store.here, held, above=(job,), fences=(fence,))
    if stale == "fence":
        Fences(store.here.profile.database).release(fence)
        fenced(store.here)
    elif stale == "holder of the fence":
        Fences(store.here.profile.database).release(fence)
    else:
        (held if stale == "owner" else job).release(held.ended(RunStatus.FAILED))

    with pytest.raises(ExecutionSuperseded):
        store.here.profile.admission.admit(wanted)

    assert guards(store) == []
    assert [entry for entry in store.entries(held.attempt.execution_id) if entry.doubts] == []


@pytest.mark.clause("run.callback-guard.acquire", "run.callback-guard.holder-gone")
@pytest.mark.parametrize("how", ["lapsed", "exited"])
def test_an_engine_whose_lease_lapsed_or_whose_exit_stands_is_admitted_no_callback(store: Store, how: str) -> None:
    engine = store.stalled()
    held = internal(engine, "job:score")
    wanted = asked(engine, held)
    if how == "exited":
        exits(store, engine)
    else:
        store.clock.advance(LEASE)

    with pytest.raises(ExecutionSuperseded):
        engine.profile.admission.admit(wanted)

    assert guards(store) == []


@pytest.mark.clause("run.callback-guard.holder-identity")
def test_an_engine_is_registered_under_its_own_identity_before_its_first_guard(store: Store) -> None:
    engines = [engine_for(store) for _ in range(2)]
    rows: list[tuple[str, bool]] = []

    for number, engine in enumerate(engines):
        effect = Effect(lambda: rows.extend((each.holder, _registered(store, each.holder)) for each in guards(store)))
        store.open(f"job-{number}", engine=engine).step("send", effect, destination="vendor")

    assert rows == [(engine.leases.holder, True) for engine in engines]
    assert len({holder for holder, _ in rows}) == 2
    assert all(len(holder) == 34 for holder, _ in rows)


def _registered(store: Store, holder: str) -> bool:
    rows = store.here.profile.database.run(call("renew_holder", holder=holder, lease_ms=LEASE))[0]
    return bool(rows)


@pytest.mark.clause("run.callback-guard.identity")
@pytest.mark.parametrize("window", [None, 60_000])
def test_a_guard_says_whose_callback_it_admits_and_what_it_is_known_by(store: Store, window: int | None) -> None:
    execution = store.open(engine=engine_for(store, window=window))
    seen = []
    effect = Effect(lambda: seen.extend(guards(store)))

    execution.step("send", effect, destination="vendor")

    (guard,) = seen
    (entry,) = store.entries(execution.execution_id)
    assert (guard.execution_id, guard.attempt) == (execution.execution_id, execution.run_id)
    assert (guard.step, guard.input) == (entry.key.step, entry.key.input)
    assert effect.keys == [guard.idempotency_key] == [entry.key.idempotency_key]
    assert (guard.admitted_at, guard.window_ms) == (store.clock.now(), window)
    assert (guard.destination, guard.kind, guard.scopes, guard.leases) == ("vendor", Kind.EFFECT, ("host:job",), ())
    assert guard.token.startswith("g-")


@pytest.mark.clause("run.callback-guard.acquire")
def test_two_threads_that_ask_for_one_key_send_it_once(store: Store) -> None:
    execution = store.open(engine=engine_for(store))
    begun = threading.Barrier(2, timeout=30)
    effect = Effect(lambda: threading.Event().wait(0.05) or "sent")
    values: list[str] = []

    def ask() -> None:
        begun.wait()
        values.append(execution.step("send", effect, destination="vendor"))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    with store.clock.standing():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)

    assert values == ["sent", "sent"]
    assert effect.calls == 1


def test_a_destination_declares_no_window_unless_it_says_so() -> None:
    assert Destination("vendor", "http://vendor.test").dedup_window_ms is None
