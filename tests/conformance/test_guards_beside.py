"""What is done about one callback leaves every other alone: entries, guards and owners beside it stay as they are."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import EffectUnsettled, ExecutionPinMismatch, ExecutionSuperseded, ExecutionTransferBlocked
from engine.fences import Fences
from engine.guards.rules import Mark
from engine.guards.store import Guards
from engine.shapes import INLINE_LIMIT, Entry, RunStatus
from tests.guarded import (
    HOUR,
    admitted,
    asked,
    engine_for,
    exits,
    guards,
    internal,
    left_sending,
    receipt,
    reconcile,
    replayable,
)
from tests.stores import LEASE, Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.execution.held import Held
    from engine.guards.asked import Admitted
    from engine.host import Engine
    from engine.owners import Owner


@dataclass
class Scene:
    """A callback that is out, and beside it: entries in doubt, of its execution and of another, which has a guard."""

    store: Store
    engine: Engine
    held: Held
    other: Held
    out: Admitted

    @classmethod
    def of(cls, store: Store) -> Scene:
        engine = store.stalled()
        held, other = internal(engine, "job:score"), internal(engine, "job:other")
        for each, step, label in ((held, "other", "in"), (held, "send", "else"), (other, "send", "in")):
            engine.profile.admission.settle(admitted(engine, each, step=step, label=label), Mark.STAYS)
        admitted(engine, other, step="standing")
        return cls(store, engine, held, other, admitted(engine, held))

    def leave(self) -> None:
        """Have the engine gone and its leases lapsed."""
        exits(self.store, self.engine)
        self.store.clock.advance(LEASE)

    def reconciled(self, evidence: Callable[..., str]) -> None:
        self.leave()
        (guard,) = [each for each in guards(self.store) if each.token == self.out.token]
        reconcile(self.store, guard, evidence(guard))

    def taken_over(self) -> None:
        self.leave()
        internal(self.store.here, "job:score")

    def beside(self) -> tuple[list[Entry], list[str], list[Owner | None]]:
        entries = [
            entry
            for held in (self.held, self.other)
            for entry in self.store.entries(held.attempt.execution_id)
            if entry.key != self.out.asked.key
        ]
        tokens = [each.token for each in guards(self.store) if each.token != self.out.token]
        return entries, tokens, [self.store.here.owners.read("job:other")]


ENDINGS: dict[str, Callable[[Scene], None]] = {
    "recorded": lambda scene: scene.engine.profile.admission.record(scene.out, b"1"),
    "refused": lambda scene: scene.engine.profile.admission.settle(scene.out, Mark.CLEARED),
    "withdrawn": lambda scene: scene.engine.profile.admission.settle(scene.out, Mark.WITHDRAWN),
    "unanswered": lambda scene: scene.engine.profile.admission.settle(scene.out, Mark.STAYS),
    "settled by a receipt": lambda scene: scene.reconciled(receipt),
    "cleared by a word of absence": lambda scene: scene.reconciled(lambda guard: receipt(guard, "absent")),
    "freed by its key": lambda scene: scene.reconciled(replayable),
    "taken over": lambda scene: scene.taken_over(),
}


@pytest.mark.clause("run.callback-guard.scope", "run.callback-guard.release", "run.callback-guard.manual")
@pytest.mark.parametrize("ending", ENDINGS)
def test_what_lies_beside_a_callback_stays_as_it_is_however_it_ends(store: Store, ending: str) -> None:
    scene = Scene.of(store)
    before = scene.beside()

    ENDINGS[ending](scene)

    assert scene.beside() == before
    assert Guards(store.here.profile.database).stands(scene.out.token) is False
    assert len(before[0]) == 4


@pytest.mark.clause("run.callback-guard.manual")
@pytest.mark.parametrize("mark", [Mark.CLEARED, Mark.WITHDRAWN, Mark.STAYS])
@pytest.mark.parametrize("evidence", [receipt, replayable])
def test_an_ending_that_comes_after_the_operator_changes_nothing(
    store: Store, mark: Mark, evidence: Callable[..., str]
) -> None:
    scene = Scene.of(store)
    scene.reconciled(evidence)
    before = (store.entries(scene.held.attempt.execution_id), guards(store))

    scene.engine.profile.admission.settle(scene.out, mark)

    assert (store.entries(scene.held.attempt.execution_id), guards(store)) == before


@pytest.mark.clause("run.callback-guard.acquire")
@pytest.mark.parametrize("beside", ["a guard", "none"])
def test_an_entry_in_doubt_is_refused_past_its_window_whatever_lies_beside_it(store: Store, beside: str) -> None:
    engine = engine_for(store)
    held = internal(engine, "job:score")
    engine.profile.admission.settle(admitted(engine, held), Mark.STAYS)
    engine.profile.admission.settle(admitted(engine, held, step="clear"), Mark.CLEARED)
    if beside == "a guard":
        admitted(engine, internal(engine, "job:other"))
    store.clock.advance(HOUR)
    engine.leases._renew_if_due()

    with pytest.raises(EffectUnsettled):
        admitted(engine, held)

    assert admitted(engine, held, step="clear")


@pytest.mark.clause("run.callback-guard.acquire")
def test_entries_in_doubt_do_not_keep_another_step_from_being_sent(store: Store) -> None:
    engine = engine_for(store)
    held = internal(engine, "job:score")
    for step, label in (("other", "in"), ("send", "else")):
        engine.profile.admission.settle(admitted(engine, held, step=step, label=label), Mark.STAYS)
    store.clock.advance(HOUR)
    engine.leases._renew_if_due()

    assert admitted(engine, held)


@pytest.mark.clause("run.callback-guard.acquire")
@pytest.mark.parametrize("value", [b"1", b"x" * (INLINE_LIMIT + 1)])
def test_what_is_recorded_is_the_answer_to_an_admission_and_stays_as_it_is(store: Store, value: bytes) -> None:
    engine = engine_for(store)
    held = internal(engine, "job:score")
    admission = engine.profile.admission
    admission.settle(admitted(engine, held), Mark.STAYS)
    admission.record(admitted(engine, held), value)
    before = store.entries(held.attempt.execution_id)
    store.clock.advance(HOUR)
    engine.leases._renew_if_due()

    assert [admission.admit(asked(engine, held))] == before

    assert store.entries(held.attempt.execution_id) == before
    assert guards(store) == []


@pytest.mark.clause("run.callback-guard.acquire")
@pytest.mark.parametrize("blank", ["sqlite"], indirect=True)
@pytest.mark.parametrize("strange", ["scope", "execution_id", "run_id", "holder"])
def test_an_attempt_that_is_not_its_owners_is_not_even_told_what_is_recorded(store: Store, strange: str) -> None:
    engine = engine_for(store)
    held, other = internal(engine, "job:score"), internal(engine, "job:other")
    for each in (held, other):
        engine.profile.admission.record(admitted(engine, each), b"1")
    wanted = asked(engine, held)
    if strange == "execution_id":
        wanted = replace(wanted, key=asked(engine, other).key)
    else:
        attempt = replace(held.attempt, **{strange: {"scope": "job:other"}.get(strange, "another")})
        wanted = replace(wanted, attempt=attempt)

    with pytest.raises(ExecutionSuperseded):
        engine.profile.admission.admit(wanted)


@pytest.mark.clause("run.callback-guard.acquire")
@pytest.mark.parametrize(
    ("ancestor", "lease"),
    [
        *(({field: "another"}, {}) for field in ("scope", "execution_id", "run_id", "holder")),
        *(({}, {field: value}) for field, value in (("key", "another"), ("holder", "another"), ("fence", 2))),
    ],
)
def test_a_row_is_bound_only_where_all_of_it_is_as_the_caller_knows_it(
    store: Store, ancestor: dict[str, str], lease: dict[str, Any]
) -> None:
    engine = store.here
    held, job = internal(engine, "item:score:1"), internal(engine, "job:score")
    fence = Fences(engine.profile.database).take("entity:customers:42", holder=engine.leases.holder)
    assert fence is not None
    known = asked(engine, held, above=(job,), fences=(fence,))

    with pytest.raises(ExecutionSuperseded):
        engine.profile.admission.admit(
            replace(known, above=(replace(job.attempt, **ancestor),), fences=(replace(fence, **lease),))
        )

    assert guards(store) == []
    engine.profile.admission.admit(known)
    (guard,) = guards(store)
    assert guard.protected == ("lease:entity:customers:42", "owner:item:score:1", "owner:job:score")


@pytest.mark.clause("run.callback-guard.window", "run.callback-guard.release")
@pytest.mark.parametrize(("window", "passed", "stands"), [(HOUR, HOUR - 1, False), (HOUR, HOUR, True), (None, 0, True)])
def test_what_went_unanswered_is_released_by_the_stores_own_instant_however_late(
    store: Store, window: int | None, passed: int, stands: bool
) -> None:
    out = admitted(store.here, internal(store.here, "job:score"), window=window)
    store.clock.advance(passed)

    with pytest.raises(ExecutionTransferBlocked) if stands else nullcontext():
        store.here.profile.admission.settle(out, Mark.STAYS)

    assert [each.token for each in guards(store)] == [out.token] * stands


@pytest.mark.clause("run.callback-guard.window")
@pytest.mark.parametrize("doubted", [False, True])
def test_what_was_withdrawn_has_begun_a_window_only_where_an_earlier_admission_is_in_doubt(
    store: Store, doubted: bool
) -> None:
    engine = store.here
    held, begun = internal(engine, "job:score"), store.clock.now()
    admitted(engine, internal(engine, "job:other"))
    if doubted:
        engine.profile.admission.settle(admitted(engine, held), Mark.STAYS)
    else:
        store.clock.advance(1)

    engine.profile.admission.settle(admitted(engine, held), Mark.WITHDRAWN)

    (entry,) = store.entries(held.attempt.execution_id)
    assert (entry.admitted_at, entry.doubts) == ((begun, 1) if doubted else (None, 0))


@pytest.mark.clause("run.callback-guard.replay")
def test_a_takeover_under_other_pins_takes_nothing_and_releases_nothing(store: Store) -> None:
    """Not even where another owner under those pins may be taken."""
    dead = left_sending(store)
    store.open("other", plan="plan-b", engine=engine_for(store, stalls=True))
    store.clock.advance(LEASE)

    with pytest.raises(ExecutionPinMismatch):
        store.open(plan="plan-b", engine=engine_for(store))

    assert guards(store) == [dead.guard]


@pytest.mark.clause("run.callback-guard.replay")
def test_a_guard_is_replayed_once_the_lease_of_its_own_attempt_has_lapsed_whichever_row_is_taken(store: Store) -> None:
    engine = store.stalled()
    held, job = internal(engine, "item:score:1"), internal(engine, "job:score")
    out = admitted(engine, held, above=(job,))
    job.release(job.ended(RunStatus.FAILED))
    exits(store, engine)

    with pytest.raises(ExecutionTransferBlocked) as refusal:
        internal(store.here, "job:score")
    store.clock.advance(LEASE)

    assert refusal.value.token == out.token
    assert internal(store.here, "job:score").resumed
    assert guards(store) == []


@pytest.mark.clause("run.callback-guard.scope")
def test_a_guarded_lease_may_be_given_up_and_is_taken_by_nobody_until_the_guard_is_gone(store: Store) -> None:
    fences = Fences(store.here.profile.database)
    fence = fences.take("entity:customers:42", holder=store.here.leases.holder)
    assert fence is not None
    out = admitted(store.here, internal(store.here, "job:score"), fences=(fence,))

    assert fences.release(fence)

    with pytest.raises(ExecutionTransferBlocked):
        fences.take("entity:customers:42", holder=store.here.leases.holder)
    store.here.profile.admission.settle(out, Mark.CLEARED)
    assert fences.take("entity:customers:42", holder=store.here.leases.holder) is not None
