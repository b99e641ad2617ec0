"""Attempts of one owner that run one step, each on threads of the engine's own `Steps.run`.

A holds the owner at first; B, and C after a power loss, take it as soon as the statements let them. Any thread may be
stalled for ever, A may crash anywhere, the clock passes leases, a keeper may wake late and renew, an effect answers or
fails, whoever holds the owner may retire it, and one power loss may take every batch since the last synced one.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.clock import Chance
from engine.errors import ContextfulError, Permanent, Transient
from engine.execution.cancellation import Cancellation
from engine.execution.keeper import LEASE_MS
from engine.execution.outbound import Outbound
from engine.execution.steps import Steps
from engine.journal import SqlJournal
from engine.local.blobs import SqliteBlobs
from engine.schedule import Schedule
from engine.secrets import SecretGuard
from engine.shapes import Attempt, EntryKey
from engine.sql import call
from tests.model.replay import History, Mutations, Rows, Script, Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SCOPE, EXECUTION = "job:score", "x-1"
KEY = EntryKey(EXECUTION, "charge", "in")
SCHEDULE = Schedule(attempts=2, jitter_ms=0)
CHANCE = Chance.seeded(0)
GUARD = SecretGuard({})
ANSWERS = {"transient": Transient("cut off"), "permanent": Permanent("refused")}
TABLES = ("meta", "holders", "owners", "runs", "journal", "blobs", "awakeables", "requests")


class Thread(NamedTuple):
    """Where one caller of the step stands: what it does next, or how it ended."""

    history: History = ()
    on: str = "start"
    result: Any = None


class State(NamedTuple):
    """Everything the world is; `threads` are None until their attempt holds the owner, and again once it is dead."""

    rows: Rows
    unsynced: tuple[Rows, ...]
    now: int
    threads: tuple[tuple[str, Thread], ...]
    opened: str = "A"
    dead: frozenset[str] = frozenset()
    sent: frozenset[str] = frozenset()
    recorded: Any = None
    failures: int = 0
    broken: str | None = None


class StepsModel:
    """`threads` maps each attempt to how many callers it has; only attempts but the last crash or fail."""

    def __init__(
        self,
        threads: Mapping[str, int],
        *,
        ticks: int,
        failures: int = 1,
        power: bool = True,
        mutations: Mutations | None = None,
    ) -> None:
        self.store = Store(*TABLES, mutations=mutations)
        self._threads = {name: tuple(f"{name}.{n}" for n in range(count)) for name, count in threads.items()}
        self._programs = {t: partial(_step, t) for names in self._threads.values() for t in names}
        self._last_instant = ticks * (LEASE_MS + 1)
        self._failures = failures
        self._power = power
        self._owners = self.store.tables.index("owners")
        self._journal = self.store.tables.index("journal")

    def initial(self) -> State:
        rows, _ = self.store.act(_open, "A", rows=self.store.empty, now=0)
        return State(rows, (), 0, self._fresh("A"))

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Every turn of every thread, and whatever befalls them."""
        if state.broken:
            return
        for name, thread in state.threads:
            yield from self._turns(state, name, thread)
        yield from self._takeover(state)
        yield from self._fates(state)

    def row(self, state: State) -> Mapping[str, Any] | None:
        """The journal's row of the step."""
        rows = state.rows[self._journal]
        names = ("execution_id", "step", "input", "run_id", "claim", "attempts", "due", "value", "digest", "bytes")
        return dict(zip(names, rows[0], strict=False)) if rows else None

    def active(self, rows: Rows) -> str | None:
        """The attempt that holds the owner, while there is one: an execution retires once a caller has its value."""
        return rows[self._owners][0][6] if rows[self._owners] else None

    def retired(self, state: State) -> bool:
        """Whether the execution is over."""
        return not state.rows[self._owners]

    def inside(self, state: State) -> list[str]:
        """The threads that are inside the effect."""
        return [name for name, thread in state.threads if thread.on == "effect"]

    def _turns(self, state: State, name: str, thread: Thread) -> Iterator[tuple[str, State]]:
        if thread.on in {"returned", "raised"}:
            return
        answers: list[str | None] = [None]
        if thread.on == "effect":
            answers = ["value", *(ANSWERS if name[0] == "A" and state.failures < self._failures else ())]
        for answer in answers:
            turn = self.store.turn(self._programs[name], thread.history, state.rows, now=state.now, answer=answer)
            moved = state._replace(
                threads=tuple((n, Thread(*turn[1:4]) if n == name else t) for n, t in state.threads),
                sent=state.sent | {name} if answer == "value" else state.sent,
                failures=state.failures + (answer in ANSWERS),
            )
            yield f"{name} {turn.did}", self._judged(state, self._wrote(moved, turn.rows, synced=turn.synced), name)

    def _judged(self, before: State, after: State, name: str) -> State:
        """Note what no single state shows: who dispatched, who took a claim from whom, who recorded."""
        was, row, active = self.row(before), self.row(after), self.active(before.rows)
        broken = None
        entered = set(self.inside(after)) - set(self.inside(before))
        if entered and name[0] != active:
            broken = f"{name} enters the effect, superseded"
        if entered and row and row["claim"] != name:
            broken = f"{name} enters the effect under the claim of {row['claim']}"
        passed = was and row and was["claim"] and row["claim"] not in {None, was["claim"]}
        if was and row and passed and (row["claim"][0] == was["claim"][0] or row["claim"][0] != active):
            broken = f"{row['claim']} takes the claim of {was['claim']} while {active} holds the owner"
        recorded = before.recorded
        if row and row["value"] is not None and recorded is None:
            recorded = row["value"]
            if name[0] != active:
                broken = f"{name} records, superseded"
        return after._replace(recorded=recorded, broken=before.broken or broken)

    def _takeover(self, state: State) -> Iterator[tuple[str, State]]:
        following = chr(ord(state.opened) + 1)
        if self.retired(state) or following not in self._threads or (following == "C" and "B" not in state.dead):
            return
        lapsed = self.store.act(_lapsed, rows=state.rows, now=state.now)[1]
        rows, _ = self.store.act(_open, following, rows=state.rows, now=state.now)
        if self.active(rows) != following:
            return
        taken = state._replace(threads=state.threads + self._fresh(following), opened=following)
        broken = None if lapsed else f"{following} takes the owner from a lease that runs"
        yield f"{following} takes the owner", self._wrote(taken, rows, synced=True)._replace(broken=broken)

    def _fates(self, state: State) -> Iterator[tuple[str, State]]:
        # A lease that runs at the last instant would run for ever, so nothing is renewed then.
        if going := state.now < self._last_instant + ("power" in state.dead) * (LEASE_MS + 1):
            yield "the clock passes a lease", state._replace(now=state.now + LEASE_MS + 1)
        if "A" not in state.dead:
            yield "A crashes", _killed(state, "A")
        if going and "A" not in state.dead:
            rows, _ = self.store.act(_renew, "A", rows=state.rows, now=state.now)
            yield "A's keeper renews", self._wrote(state, rows, synced=False)
        active = self.active(state.rows)
        if active and any(name[0] == active and t.on == "returned" for name, t in state.threads):
            rows, _ = self.store.act(_retire, active, rows=state.rows, now=state.now)
            yield f"{active} retires the execution", self._wrote(state, rows, synced=True)
        if self._power and state.opened != max(self._threads) and "power" not in state.dead:
            for lost, rows in enumerate((state.rows, *state.unsynced[::-1])):
                left = state.unsynced[: len(state.unsynced) - lost]
                dark = _killed(state, *state.opened, "A", "power")._replace(rows=rows, unsynced=left)
                yield f"the power goes, with it the last {lost} batches", dark

    def _wrote(self, state: State, rows: Rows, *, synced: bool) -> State:
        if synced:
            return state._replace(rows=rows, unsynced=())
        return state if rows == state.rows else state._replace(rows=rows, unsynced=(*state.unsynced, state.rows))

    def _fresh(self, attempt: str) -> tuple[tuple[str, Thread], ...]:
        return tuple((name, Thread()) for name in self._threads[attempt])


def _step(name: str, script: Script) -> Any:
    """What one thread does: the step, as the engine runs it. Every second thread expects a recorded value."""

    def effect(_: Any) -> bytes:
        answer = script.ask("effect")
        if answer in ANSWERS:
            raise ANSWERS[answer]
        return name.encode()

    attempt = Attempt(SCOPE, EXECUTION, name[0], f"h-{name[0]}")
    database: Any = script
    outbound = Outbound(database, CHANCE, attempt=attempt, guard=GUARD)
    journal = SqlJournal(database, SqliteBlobs(database))
    # A claim's token is the attempt's name and a number: here the thread's own name, alike in every replay.
    tokens = itertools.count(int(name[2:]))
    steps = Steps(journal, script, CHANCE, attempt, outbound, Cancellation(), _unheard, tokens)
    return steps.run(KEY, effect, schedule=SCHEDULE, likely_recorded=name.endswith("1")).value


def _unheard(step: str, attempt: int, failure: ContextfulError, delay_ms: int) -> None:
    """Nobody listens."""


def _open(store: Store, attempt: str) -> None:
    """What an engine's open is to the owner: its holder's row, then the batch that opens or takes."""
    holder = f"h-{attempt}"
    pinned = {"scope": SCOPE, "pins": "{}", "plan_ref": "p", "input_hash": None}
    claimed = {"run_id": attempt, "holder": holder, "execution_id": EXECUTION}
    store.run(call("register_holder", holder=holder, pid=1, boot_id="b", lease_ms=LEASE_MS))
    store.run(call("open_owner", **pinned, **claimed), call("take_owner", **pinned, **claimed))


def _retire(store: Any, attempt: str) -> None:
    """What ends an execution: refused unless the attempt holds its owner, which goes with all it recorded."""
    scoped = {"scope": SCOPE, "execution_id": EXECUTION}
    collection = SqlJournal(store, SqliteBlobs(store)).collection(EXECUTION)
    active = call("require_attempt", **scoped, run_id=attempt, holder=f"h-{attempt}")
    store.run(active, *collection, call("retire_owner", **scoped))


def _renew(store: Store, attempt: str) -> None:
    store.run(call("renew_holder", holder=f"h-{attempt}", lease_ms=LEASE_MS))


def _lapsed(store: Store) -> bool:
    """Judged by other means than the statement under test: the rows read back, compared here."""
    ((owner,),) = store.run(call("read_owner", scope=SCOPE))
    return bool(owner[7] <= store.instant)


def _killed(state: State, *names: str) -> State:
    threads = tuple((name, t) for name, t in state.threads if name[0] not in names)
    return state._replace(threads=threads, dead=state.dead | set(names))
