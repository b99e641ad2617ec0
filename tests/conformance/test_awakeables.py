"""A wait for an outside party: minted once, resolved once, timed out for good."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine.errors import AwakeableAlreadyResolved, AwakeableTimedOut, AwakeableUnknown, Canceled, DurationSpelling
from engine.shapes import Awakeable, AwakeableState
from tests.stores import LEASE, Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.clocks import SettableClock

TTL = 60_000


def minted(store: Store, *, scope: str = "job", token: str = "0" * 32) -> Awakeable:
    """A pending wait of an execution under `scope`."""
    now = store.clock.now()
    wait = Awakeable(token, store.open(scope).execution_id, "approval", created_at=now, deadline=now + TTL)
    store.here.profile.awakeables.mint(wait)
    return wait


def answering(store: Store, payload: bytes) -> Callable[[str], None]:
    """Announce by resolving: the outside party answers at once."""

    def answer(token: str) -> None:
        store.here.profile.awakeables.resolve(token, payload, at=store.clock.now())

    return answer


@pytest.mark.clause("run.suspend.awakeable")
def test_a_run_waits_until_the_token_comes_back(store: Store) -> None:
    tokens: list[str] = []
    execution = store.open()

    def party(token: str) -> None:
        tokens.append(token)
        assert store.here.profile.awakeables.read(token).state is AwakeableState.PENDING
        answering(store, b'{"approved":true}')(token)

    assert execution.wait("approval", ttl_ms=TTL, announce=party) == {"approved": True}
    assert [len(token) for token in tokens] == [32]


@pytest.mark.clause("run.suspend.resume-is-a-step-output")
def test_the_payload_is_the_awaited_steps_output_and_repeating_it_returns_it(store: Store) -> None:
    wait = minted(store)
    awakeables = store.here.profile.awakeables

    first = awakeables.resolve(wait.token, b'"yes"', at=store.clock.now())
    again = awakeables.resolve(wait.token, b'"yes"', at=store.clock.now() + 2 * TTL)

    entry = store.here.profile.journal.find(wait.entry_key)
    assert first == again == b'"yes"'
    assert entry is not None
    assert (entry.key.step, entry.value) == ("approval", b'"yes"')


@pytest.mark.clause("run.suspend.resume-is-a-step-output")
def test_a_run_that_resumes_and_crashes_reads_the_payload_without_waiting_again(
    store: Store, clock: SettableClock
) -> None:
    store.elsewhere().wait("approval", ttl_ms=TTL, announce=answering(store, b'"yes"'))
    clock.advance(LEASE + TTL)
    announced: list[str] = []

    value = store.open().wait("approval", ttl_ms=TTL, announce=announced.append)

    assert value == "yes"
    assert announced == []


@pytest.mark.clause("run.suspend.resume-is-a-step-output")
def test_a_wait_taken_over_keeps_its_token_and_its_deadline(store: Store, clock: SettableClock) -> None:
    tokens: list[str] = []

    def vanish(token: str) -> None:
        tokens.append(token)
        raise Canceled("the process goes")

    first = store.elsewhere()
    with pytest.raises(Canceled):
        first.wait("approval", ttl_ms=TTL, announce=vanish)
    deadline = store.here.profile.awakeables.read(tokens[0]).deadline
    clock.advance(LEASE)

    def resolve(token: str) -> None:
        tokens.append(token)
        answering(store, b"1")(token)

    store.open().wait("approval", ttl_ms=TTL, announce=resolve)

    assert tokens[0] == tokens[1]
    assert store.here.profile.awakeables.read(tokens[0]).deadline == deadline


@pytest.mark.clause("run.suspend.conflicting-resolution")
def test_a_second_payload_is_refused_and_the_first_stands(store: Store) -> None:
    wait = minted(store)
    awakeables = store.here.profile.awakeables
    awakeables.resolve(wait.token, b'"yes"', at=store.clock.now())

    with pytest.raises(AwakeableAlreadyResolved):
        awakeables.resolve(wait.token, b'"no"', at=store.clock.now())

    entry = store.here.profile.journal.find(wait.entry_key)
    assert entry is not None
    assert entry.value == b'"yes"'


@pytest.mark.clause("run.suspend.conflicting-resolution")
def test_of_parties_that_answer_at_once_one_is_recorded_and_the_others_told(store: Store) -> None:
    wait = minted(store)
    profiles = [store.profile() for _ in range(4)]
    begun = threading.Barrier(4)

    def answer(number: int) -> bytes | None:
        begun.wait(5)
        try:
            return profiles[number].awakeables.resolve(wait.token, b"%d" % number, at=store.clock.now())
        except AwakeableAlreadyResolved:
            return None

    with ThreadPoolExecutor(4) as pool:
        answers = [answer for answer in pool.map(answer, range(4)) if answer is not None]

    entry = store.here.profile.journal.find(wait.entry_key)
    assert entry is not None
    assert answers == [entry.value]


@pytest.mark.clause("run.suspend.expired-token")
def test_a_token_past_its_deadline_resolves_nothing(store: Store) -> None:
    wait = minted(store)

    with pytest.raises(AwakeableTimedOut):
        store.here.profile.awakeables.resolve(wait.token, b"1", at=wait.deadline)

    assert store.here.profile.journal.find(wait.entry_key) is None


@pytest.mark.clause("run.suspend.unknown-token")
@pytest.mark.parametrize("token", ["f" * 32, "", "../../secret", "a/b", "x" * 5000])
def test_a_token_nobody_minted_is_unknown_and_allocates_nothing(store: Store, token: str) -> None:
    awakeables = store.here.profile.awakeables
    execution = store.open()

    for attempt in (awakeables.read, lambda token: awakeables.resolve(token, b"1", at=0)):
        with pytest.raises(AwakeableUnknown):
            attempt(token)
    with pytest.raises(AwakeableUnknown):
        awakeables.time_out(token, at=1 << 50)

    assert store.entries(execution.execution_id) == []


@pytest.mark.clause("run.suspend.deadline")
def test_a_wait_ends_at_its_creation_plus_its_time_to_live(store: Store, clock: SettableClock) -> None:
    execution = store.open()
    began = clock.now()

    with pytest.raises(AwakeableTimedOut) as late:
        execution.wait("approval", ttl_ms=TTL)

    assert late.value.deadline_at == began + TTL
    assert clock.now() == began + TTL


@pytest.mark.clause("run.suspend.deadline")
def test_a_time_to_live_is_spelled_as_a_duration(store: Store, clock: SettableClock) -> None:
    execution = store.open()
    began = clock.now()

    with pytest.raises(AwakeableTimedOut) as late:
        execution.wait("approval", ttl="2m")
    for nonsense in ("soon", "0s", ""):
        with pytest.raises(DurationSpelling, match="2h"):
            execution.wait("another", ttl=nonsense)

    assert late.value.deadline_at == began + 120_000


@pytest.mark.clause("run.suspend.deadline")
def test_what_timed_out_at_one_instant_stays_so_under_any_other(store: Store) -> None:
    wait = minted(store)
    awakeables = store.here.profile.awakeables
    assert not awakeables.time_out(wait.token, at=wait.deadline - 1)

    assert awakeables.time_out(wait.token, at=wait.deadline)

    assert awakeables.time_out(wait.token, at=wait.created_at)
    assert awakeables.read(wait.token).state is AwakeableState.TIMED_OUT
    with pytest.raises(AwakeableTimedOut):
        awakeables.resolve(wait.token, b"1", at=wait.created_at)


@pytest.mark.clause("run.suspend.deadline")
def test_a_resolved_wait_never_times_out(store: Store) -> None:
    wait = minted(store)
    awakeables = store.here.profile.awakeables
    awakeables.resolve(wait.token, b"1", at=wait.created_at)

    assert not awakeables.time_out(wait.token, at=wait.deadline + 1)
    assert awakeables.read(wait.token).state is AwakeableState.RESOLVED


@pytest.mark.clause("run.suspend.survives-restart")
def test_a_process_that_reopens_the_store_drops_no_pending_wait(store: Store) -> None:
    waits = [replace(minted(store, scope=f"job-{n}", token=f"{n:032x}"), subject=None) for n in range(3)]

    reopened = store.profile().awakeables

    assert [reopened.read(wait.token) for wait in waits] == waits


@pytest.mark.clause("run.suspend.awakeable")
def test_minting_again_changes_nothing(store: Store) -> None:
    wait = minted(store)

    store.here.profile.awakeables.mint(replace(wait, deadline=wait.deadline + 1, step="another"))

    assert store.here.profile.awakeables.read(wait.token) == wait


def test_pending_lists_an_executions_waits_before_their_deadlines(store: Store) -> None:
    execution = store.open()
    awakeables = store.here.profile.awakeables
    for number in range(3):
        awakeables.mint(Awakeable(f"{number}", execution.execution_id, "s", created_at=number, deadline=10 + number))
    awakeables.resolve("1", b"1", at=5)

    assert [wait.token for wait in awakeables.pending(execution.execution_id, at=9)] == ["0", "2"]
    assert [wait.token for wait in awakeables.pending(execution.execution_id, at=10)] == ["2"]


def test_two_waits_of_one_label_in_two_executions_are_two(store: Store) -> None:
    one = store.open("one").wait("approval", ttl_ms=TTL, announce=answering(store, b'"first"'))
    two = store.open("two").wait("approval", ttl_ms=TTL, announce=answering(store, b'"second"'))

    assert (one, two) == ("first", "second")
