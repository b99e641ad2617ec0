"""A guard in words, whatever holder, lease and window make of it, and read back from what a Worker tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.guards.guard import Guard, Standing
from engine.guards.rules import WAYS, Holder, Kind, Lease, Window
from engine.instants import instant, read
from engine.operator.answers import standing
from engine.operator.words import lines, releases, span

NOW = 1_800_000_000_000
GUARD = Guard(
    token="g-1",
    protected=("lease:entity:7", "owner:item:7", "owner:job:score"),
    scope="item:7",
    execution_id="x-1",
    attempt="r-1",
    holder="h-1",
    step="charge",
    input="in",
    idempotency_key="k-1",
    kind=Kind.EFFECT,
    destination="payments",
    window_ms=3_600_000,
    admitted_at=NOW - 90_000,
    covered_until=NOW + 3_510_000,
)
UNTIL = {Window.COVERS: NOW + 1, Window.PASSED: NOW, Window.NONE: None}


def made(holder: Holder, lease: Lease, window: Window) -> Standing:
    until = UNTIL[window]
    guard = replace(GUARD, covered_until=until, window_ms=None if until is None else 3_600_000)
    lease_until = NOW + 10_000 if lease is Lease.RUNS else NOW - 5_000
    return Standing(guard, lease_until, NOW - 1_000 if holder is Holder.GONE else None, NOW)


@pytest.mark.clause("run.callback-guard.inspect")
@pytest.mark.parametrize("place", WAYS, ids=str)
def test_evidence_is_named_exactly_where_it_would_release(place: tuple[Holder, Lease, Window]):
    found = made(*place)

    named = [text.split(" ")[0] for text in releases(found)]

    if not WAYS[place].manual:
        assert named == ["nothing:"]
        return
    assert named[-2:] == ["receipt:k-1:ID", "receipt:k-1:absent"]
    assert ("idempotency:k-1" in named) is (place[2] is Window.COVERS)


@pytest.mark.parametrize("place", WAYS, ids=str)
def test_what_is_next_is_the_way_that_is_open(place: tuple[Holder, Lease, Window]):
    next_step = dict(lines(made(*place), project="shop", address=None))["next"]

    if WAYS[place].replay:
        assert next_step.startswith("nothing by hand")
    elif not WAYS[place].manual:
        assert next_step.startswith("wait")
    else:
        assert "look for the key" in next_step
        assert "contextful storage reconcile-guard --project shop --token g-1" in next_step
    stalled = place[:2] == (Holder.PRESENT, Lease.LAPSED)
    assert ("make sure that its engine is gone" in next_step) is stalled


def test_everything_of_a_guard_is_told():
    told = dict(
        lines(made(Holder.GONE, Lease.LAPSED, Window.PASSED), project="shop", address="https://pay.example.com")
    )

    assert told["protects"] == "item:7, job:score, the lease entity:7"
    assert told["admitted"] == f"1 min 30 s ago ({instant(NOW - 90_000)})"
    assert told["window"].startswith("1 h: passed 0 s ago")
    assert told["owner's lease"].startswith("lapsed 5 s ago")
    assert told["holder"].startswith("h-1: gone, it exited 1 s ago")
    assert told["where to look"] == "at payments, https://pay.example.com: what was done under the key k-1"


def test_an_attempt_that_is_over_has_no_lease_to_tell_of():
    found = replace(made(Holder.PRESENT, Lease.LAPSED, Window.NONE), lease_until=0)

    assert dict(lines(found, project="shop", address=None))["owner's lease"] == "none: the attempt is over"


@pytest.mark.parametrize(
    ("milliseconds", "told"),
    [(0, "0 s"), (-5, "0 s"), (999, "0 s"), (61_000, "1 min 1 s"), (3_600_000, "1 h"), (3_605_000, "1 h"),
     (86_400_000, "1 day"), (190_000_000, "2 days 4 h")],
)  # fmt: skip
def test_a_length_of_time_is_told_in_its_two_largest_units(milliseconds: int, told: str):
    assert span(milliseconds) == told


@pytest.mark.parametrize("place", WAYS, ids=str)
def test_a_guard_that_a_worker_tells_is_the_one_it_read(place: tuple[Holder, Lease, Window]):
    found = made(*place)

    told = standing(found.projection(), now=str(instant(NOW)))

    assert replace(told.guard, protected=tuple(sorted(told.guard.protected))) == found.guard
    assert replace(told, guard=found.guard) == found


@pytest.mark.parametrize("at", [0, 1, 999, NOW, NOW + 1, 253_402_300_799_999])
def test_an_instant_is_read_as_it_was_told(at: int):
    assert read(str(instant(at))) == at
