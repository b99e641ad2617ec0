"""A guard in words: what it protects, how it stands, which evidence would release it now and where to look. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.guards.rules import Kind, Lease, Transfer, Window
from engine.instants import instant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.guards.guard import Standing

_UNITS: Final = (("day", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def lines(found: Standing, *, project: str, address: str | None) -> list[tuple[str, str]]:
    """What an operator reads of a guard, each line under its heading; `address` is its destination's, where known."""
    guard = found.guard
    return [
        ("protects", ", ".join((*guard.scopes, *(f"the lease {each}" for each in guard.leases)))),
        ("callback", f"{guard.kind} at {guard.destination}: step {guard.step}, input {guard.input}"),
        ("execution", f"{guard.execution_id}, attempt {guard.attempt} of {guard.scope}"),
        ("idempotency key", guard.idempotency_key),
        ("admitted", _past(guard.admitted_at, now=found.now)),
        ("window", _window(found)),
        ("owner's lease", _lease(found)),
        ("holder", f"{guard.holder}: {_holder(found)}"),
        ("evidence class", str(found.evidence_class)),
        *(("releases it now", text) for text in releases(found)),
        ("where to look", _where(found, address=address)),
        ("next", _next(found, project=project)),
    ]


def releases(found: Standing) -> Iterator[str]:
    """The evidence that would release the guard at this moment, each with what it says."""
    guard, ways = found.guard, found.ways
    key = guard.idempotency_key
    if not ways.manual:
        yield "nothing: its callback may still be sending"
        return
    if guard.window(found.now) is Window.COVERS:
        yield f"idempotency:{key} (the destination still knows the key: it is sent again)"
    yield f"receipt:{key}:ID (the destination acted, and ID is its receipt: it is not sent again)"
    yield f"receipt:{key}:absent (the destination never saw the key: it is sent as if for the first time)"


def span(milliseconds: int) -> str:
    """A length of time as people say it, its two largest units."""
    left = max(milliseconds, 0)
    told: list[str] = []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count or (unit == "s" and not told):
            told.append(f"{count} {unit}{'s' * (unit == 'day' and count != 1)}")
        elif told:
            break
    return " ".join(told[:2])


def _past(at: int, *, now: int) -> str:
    return f"{span(now - at)} ago ({instant(at)})"


def _window(found: Standing) -> str:
    guard = found.guard
    if guard.window_ms is None or guard.covered_until is None:
        return f"none: {guard.destination} promises to know no key"
    declared, until = span(guard.window_ms), instant(guard.covered_until)
    if guard.window(found.now) is Window.COVERS:
        return f"{declared}: covers the key for another {span(guard.covered_until - found.now)} (until {until})"
    return f"{declared}: passed {_past(guard.covered_until, now=found.now)}"


def _lease(found: Standing) -> str:
    if found.lease is Lease.RUNS:
        return f"runs for another {span(found.lease_until - found.now)} (until {instant(found.lease_until)})"
    if not found.lease_until:
        return "none: the attempt is over"
    return f"lapsed {_past(found.lease_until, now=found.now)}"


def _holder(found: Standing) -> str:
    if found.holder_exited_at is not None:
        return f"gone, it exited {_past(found.holder_exited_at, now=found.now)}"
    if found.lease is Lease.RUNS:
        return "no exit is recorded"
    return "no exit is recorded: it may be dead, or stalled and go on"


def _where(found: Standing, *, address: str | None) -> str:
    guard = found.guard
    place = f"{guard.destination}, {address}" if address else f"the destination {guard.destination}"
    what = "what was published" if guard.kind is Kind.PUBLICATION else "what was done"
    return f"at {place}: {what} under the key {guard.idempotency_key}"


def _next(found: Standing, *, project: str) -> str:
    guard = found.guard
    if not found.ways.manual:
        return "wait: it returns, its engine's exit is recorded, or its lease lapses; then look again"
    verb = f"contextful storage reconcile-guard --project {project} --token {guard.token} --evidence E --operator YOU"
    if found.ways.transfer is Transfer.REPLAYS:
        return f"nothing by hand: the next attempt takes it over and sends the same key again; or {verb}"
    if found.holder_exited_at is None and found.lease is Lease.LAPSED:
        return f"make sure that its engine is gone, look for the key, then: {verb}"
    return f"look for the key, then: {verb}"
