"""The guard protocol as its tables have it: two engines and a spared one, serve, an operator, one effect's destination.

What decides is asked of `engine.guards.rules` alone: what a transfer meets, who may release, what an ending makes of
the guard and the mark, whether an entry is sent again. Nothing of the store is lost or late here, so that this goes
further than the model over the real statements: engines open again and again, and the clock turns more often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from engine.guards import rules
from engine.guards.rules import Admissible, Ending, Holder, Lease, Mark, Transfer, Ways, Window

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES: Final = "ABC"
LEASE: Final = 1
"""The turns of the clock after which a lease that was not renewed has lapsed."""


class Engine(NamedTuple):
    """One process: what it does, under which attempt, and until when its lease runs and the window covers.

    `on` is idle, held, admitted, sent, or valued: it has an answer to record.
    """

    on: str = "idle"
    attempt: int = 0
    until: int = 0
    covered: int | None = None
    up: bool = True
    exited: bool = False


class Guard(NamedTuple):
    """The guard that stands: whose, and until when the window covers."""

    engine: int
    attempt: int
    admitted_at: int
    covered_until: int | None


class Entry(NamedTuple):
    """The journal's row of the effect; `at` is the destination of its first admission."""

    admitted_at: int | None = None
    at: str | None = None
    doubts: int = 0
    receipt: str | None = None
    recorded: bool = False


class World(NamedTuple):
    """Everything there is; a request on the `wire` is the instant at which it left and the destination it left for.

    `owner` names the engine and the attempt that hold the scope, `ended` says that an operator has ended its lease. The
    destination `at` has `acted` so often.
    """

    engines: tuple[Engine, ...]
    now: int = 0
    owner: tuple[int, int] | None = None
    ended: bool = False
    guard: Guard | None = None
    entry: Entry = Entry()
    wire: tuple[tuple[int, str], ...] = ()
    acted: int = 0
    at: str = ""
    remembers_until: int = 0
    opened: int = 0
    sent: int = 0
    reconciled: int = 0
    serve: bool = True
    told: bool = False
    broken: str | None = None


class TableModel:
    """The transitions. All engines but the last crash, stall, close and fail.

    Together they open up to `attempts` times and send up to `sends` times; the window and the clock are in leases. The
    programs of the engines `elsewhere` name another destination.
    """

    def __init__(self, *, window: int | None, ticks: int, attempts: int, sends: int, elsewhere: str = "") -> None:
        self._window, self._ticks, self._attempts, self._sends = window, ticks, attempts, sends
        self._named = ["other" if name in elsewhere else "vendor" for name in NAMES]
        self._spared = 2

    def initial(self) -> World:
        """Nothing has been opened."""
        return World((Engine(),) * (self._spared + 1))

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        """Every turn of every engine, and whatever befalls them."""
        if world.broken or world.entry.recorded:
            return
        for number, engine in enumerate(world.engines):
            name = NAMES[number]
            if engine.up:
                yield from self._turns(world, number, engine, name)
                if number != self._spared:
                    yield from self._fates(world, number, engine, name)
            elif world.serve and not engine.exited:
                yield f"serve records that {name} is gone", _put(world, number, engine._replace(exited=True))
        yield from self._clock(world)
        yield from self._operator(world)

    def settled(self, world: World) -> bool:
        """Whether the effect is recorded, or a refusal has named what to do about it and no guard is in the way."""
        return world.entry.recorded or (world.told and world.guard is None)

    def _turns(self, world: World, number: int, engine: Engine, name: str) -> Iterator[tuple[str, World]]:
        match engine.on:
            case "idle":
                yield from self._open(world, number, engine, name)
            case "held":
                yield from self._admit(world, number, engine, name)
            case "admitted":
                yield from self._send(world, number, engine, name)
            case "sent":
                yield from self._answered(world, number, engine, name)
            case "valued":
                yield from self._record(world, number, engine, name)

    def _open(self, world: World, number: int, engine: Engine, name: str) -> Iterator[tuple[str, World]]:
        spared = number == self._spared
        spent = world.opened >= self._attempts or world.now == self._ticks
        if engine.exited or (engine.attempt if spared else spent) or _runs(world, world.owner):
            return
        attempt = engine.attempt + 1
        opened = _put(world, number, Engine("held", attempt, world.now + LEASE))._replace(
            owner=(number, attempt), ended=False, opened=world.opened + (not spared)
        )
        if world.guard is None:
            yield f"{name} takes the owner", opened
        elif self.ways(world, world.guard).transfer is Transfer.REPLAYS:
            yield (
                f"{name} takes the owner and replays",
                opened._replace(guard=None, broken=_unlawful(world, world.guard)),
            )

    def _admit(self, world: World, number: int, engine: Engine, name: str) -> Iterator[tuple[str, World]]:
        if number != self._spared:
            yield f"{name} closes its attempt", self._closed(world, number, engine)
        if not _runs(world, (number, engine.attempt)) or world.guard is not None:
            return
        entry = world.entry
        elsewhere = entry.at not in {None, self._named[number]}
        since = world.now if entry.admitted_at is None or elsewhere else entry.admitted_at
        until = None if self._window is None else since + self._window
        covered = rules.window(covered_until=until, now=world.now) is Window.COVERS
        verdict = rules.admissible(doubts=entry.doubts, receipt=entry.receipt, covered=covered, elsewhere=elsewhere)
        if verdict is not Admissible.SEND:
            yield f"{name} is refused", self._closed(world, number, engine)._replace(told=True)
            return
        admitted = engine._replace(on="admitted", covered=until if covered else None)
        yield (
            f"{name} is admitted",
            _put(world, number, admitted)._replace(
                guard=Guard(number, engine.attempt, world.now, until),
                entry=entry._replace(admitted_at=since, at=self._named[number], doubts=entry.doubts + 1),
            ),
        )

    def _send(self, world: World, number: int, engine: Engine, name: str) -> Iterator[tuple[str, World]]:
        if world.now >= engine.until or (engine.covered is not None and world.now >= engine.covered):
            yield f"{name} withdraws", self._ended(world, number, engine, Ending.UNSENT)
            return
        spared = number == self._spared
        if not spared and world.sent == self._sends:
            return
        sent = _put(world, number, engine._replace(on="sent"))._replace(
            wire=(*world.wire, (world.now, self._named[number])), sent=world.sent + (not spared)
        )
        yield f"{name} sends", sent if self._stands(world, number, engine) else _broken(sent, f"{name} sends unguarded")

    def _answered(self, world: World, number: int, engine: Engine, name: str) -> Iterator[tuple[str, World]]:
        valued = engine._replace(on="valued")
        arrived = self._arrived(world, -1) if world.wire else world
        if arrived:
            yield f"{name} is answered 200", _put(arrived, number, valued)
        if number == self._spared:
            return
        for status, after in ((200, arrived), (503, arrived), (None, world)):
            if after:
                how = rules.ending([status], refusals=())
                yield f"{name} fails after {status}", self._ended(after, number, engine, how)
        if world.wire and not world.acted:
            refused = self._ended(world, number, engine, rules.ending([429], refusals=()))
            yield f"{name} is refused by a 429", refused._replace(wire=world.wire[:-1])

    def _record(self, world: World, number: int, engine: Engine, name: str) -> Iterator[tuple[str, World]]:
        if self._stands(world, number, engine) and world.owner == (number, engine.attempt):
            yield f"{name} records", world._replace(guard=None, entry=world.entry._replace(recorded=True))
        else:
            yield f"{name} is superseded", self._closed(world, number, engine)

    def _ended(self, world: World, number: int, engine: Engine, how: Ending) -> World:
        """The world once a callback has ended so: by the table, while its guard stands."""
        covered = engine.covered is not None and world.now < engine.covered
        settling = rules.ENDINGS[how, covered]
        after = _put(world, number, engine._replace(on="held", covered=None))
        if not settling.releases:
            return self._closed(after, number, engine)
        if not self._stands(world, number, engine) or world.guard is None:
            return after
        entry = world.entry
        if settling.mark in {Mark.CLEARED, Mark.WITHDRAWN}:
            entry = entry._replace(doubts=entry.doubts - 1)
        if settling.mark is Mark.WITHDRAWN and not entry.doubts and entry.admitted_at == world.guard.admitted_at:
            entry = entry._replace(admitted_at=None, at=None)
        return after._replace(guard=None, entry=entry)

    def _closed(self, world: World, number: int, engine: Engine) -> World:
        owner = None if world.owner == (number, engine.attempt) else world.owner
        return _put(world, number, engine._replace(on="idle", covered=None))._replace(owner=owner)

    def _fates(self, world: World, number: int, engine: Engine, name: str) -> Iterator[tuple[str, World]]:
        yield f"{name} crashes", _put(world, number, engine._replace(on="idle", covered=None, up=False))
        if engine.on == "idle" and not engine.exited:
            yield f"{name} exits", _put(world, number, engine._replace(up=False, exited=True))
        held = world.owner == (number, engine.attempt) and not world.ended
        if held and engine.until < world.now + LEASE and world.now < self._ticks:
            yield f"{name} renews", _put(world, number, engine._replace(until=world.now + LEASE))

    def _clock(self, world: World) -> Iterator[tuple[str, World]]:
        if world.now < self._ticks and world.engines[self._spared].on == "idle":
            yield "the clock turns", world._replace(now=world.now + 1)
        for place in range(len(world.wire)):
            if arrived := self._arrived(world, place):
                yield "a request arrives", arrived
        if world.serve:
            yield "serve dies", world._replace(serve=False)

    def _operator(self, world: World) -> Iterator[tuple[str, World]]:
        guard = world.guard
        if guard is None or world.reconciled == self._attempts or not self.ways(world, guard).manual:
            return
        released = world._replace(guard=None, reconciled=world.reconciled + 1)
        if world.owner == (guard.engine, guard.attempt):
            released = released._replace(ended=True)
        if rules.window(covered_until=guard.covered_until, now=world.now) is Window.COVERS:
            yield "the operator gives the key", released
        at = self._named[guard.engine]
        if world.acted and world.at == at:
            yield "the operator gives a receipt", released._replace(entry=world.entry._replace(receipt="r"))
            yield "the operator gives a value", released._replace(entry=world.entry._replace(recorded=True))
        elif all(to != at for _, to in world.wire):
            yield "the operator says absent", released._replace(entry=Entry())

    def _arrived(self, world: World, place: int) -> World | None:
        """The world once a request has arrived; None for one that the network has kept past the window."""
        left_at, to = world.wire[place]
        world = world._replace(wire=tuple(sorted((*world.wire[:place], *world.wire[place:][1:]))))
        again = world.acted and world.at == to
        if again and (world.now < world.remembers_until or left_at < world.remembers_until):
            return world if world.now < world.remembers_until else None
        until = world.now + (self._window or 0)
        # Under a window what left before its end makes no difference any more: the key is known, or it is too late.
        wire = tuple(each for each in world.wire if each[0] >= until or each[1] != to or not self._window)
        after = world._replace(acted=world.acted + 1, at=to, remembers_until=until, wire=wire)
        what = "the destination has acted twice" if again else "two destinations have acted"
        return _broken(after, what) if world.acted else after

    def _stands(self, world: World, number: int, engine: Engine) -> bool:
        return world.guard is not None and world.guard[:2] == (number, engine.attempt)

    def ways(self, world: World, guard: Guard) -> Ways:
        """What the table says of the guard that stands."""
        holder = Holder.GONE if world.engines[guard.engine].exited else Holder.PRESENT
        lease = Lease.RUNS if _runs(world, guard[:2]) else Lease.LAPSED
        return rules.WAYS[holder, lease, rules.window(covered_until=guard.covered_until, now=world.now)]


def _runs(world: World, held: tuple[int, int] | None) -> bool:
    """Whether the lease of an engine's attempt runs; one that was cleared or ended does not."""
    if held is None or world.owner != held or world.ended:
        return False
    return rules.lease(until=world.engines[held[0]].until, now=world.now) is Lease.RUNS


def _unlawful(world: World, guard: Guard) -> str | None:
    """What is wrong with a replay of the guard, whatever the table says."""
    if not world.engines[guard.engine].exited:
        return "a guard is replayed whose holder may live"
    covers = guard.covered_until is not None and world.now < guard.covered_until
    return None if covers else "a guard is replayed that no window covers"


def _put(world: World, number: int, engine: Engine) -> World:
    return world._replace(engines=(*world.engines[:number], engine, *world.engines[number + 1 :]))


def _broken(world: World, what: str) -> World:
    return world._replace(broken=world.broken or what)
