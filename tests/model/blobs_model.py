"""Writers, sweepers and a retirement around one content, each the engine's own code.

All share one content: sharing is what makes a sweep dangerous. Anyone may be stalled for ever or crash and begin
again, sweeps come without end, executions retire, the clock passes the grace, and one power loss may take every batch
since the last synced one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.awakeables import SqlAwakeables
from engine.journal import SWEEP_GRACE_MS, SqlJournal
from engine.local.blobs import SqliteBlobs
from engine.shapes import Attempt, Awakeable, EntryKey
from engine.sql import call
from tests.model.replay import History, Mutations, Restart, Rows, Store

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTENT = b"content"
HOUR = SWEEP_GRACE_MS + 1
TABLES = ("meta", "holders", "owners", "journal", "blobs", "awakeables")


class Actor(NamedTuple):
    """Where one actor stands: what it does next, or how it ended."""

    history: History = ()
    on: str = "start"
    result: Any = None


class State(NamedTuple):
    """Everything the world is."""

    rows: Rows
    unsynced: tuple[Rows, ...]
    now: int
    actors: tuple[tuple[str, Actor], ...]
    powered: bool
    broken: str | None = None


class BlobsModel:
    """Actors by name: `w…` records the content as a step's value, `a…` resolves a wait with it, `s…` sweeps."""

    def __init__(self, *actors: str, ticks: int, power: bool = False, mutations: Mutations | None = None) -> None:
        self.store = Store(*TABLES, mutations=mutations)
        self._programs = {name: partial(PROGRAMS[name[0]], name) for name in actors}
        self._last_instant = ticks * HOUR
        self._power = power
        self._recovered: dict[tuple[Rows, int], str | None] = {}

    def initial(self) -> State:
        rows, _ = self.store.act(_prepare, tuple(sorted(self._programs)), rows=self.store.empty, now=0)
        return State(rows, (), 0, tuple((name, Actor()) for name in self._programs), self._power)

    def steps(self, state: State) -> Iterator[tuple[str, State]]:
        """Every turn of every actor, and whatever befalls them."""
        if state.broken:
            return
        for name, actor in state.actors:
            if actor.on not in {"returned", "raised"}:
                turn = self.store.turn(self._programs[name], actor.history, state.rows, now=state.now, answer=None)
                # A sweeper that is done sweeps again.
                moved = Actor() if name[0] == "s" and turn.on == "returned" else Actor(*turn[1:4])
                yield f"{name} {turn.did}", self._wrote(_moved(state, name, moved), turn.rows, synced=turn.synced)
                if actor.history:
                    yield f"{name} crashes and begins again", _moved(state, name, Actor())
        yield from self._fates(state)

    def missing(self, state: State) -> str | None:
        """No reference names a content that is not there, or that a sweep is about to delete."""
        blobs, contents = self._held(state.rows, "blobs"), self._held(state.rows, "blob_contents")
        kept = {digest for digest, _, _, doomed_at in blobs if doomed_at is None} & {row[0] for row in contents}
        lost = self._referenced(state.rows) - kept
        return "a referenced content is missing or doomed" if lost else None

    def hasty(self, state: State) -> str | None:
        """No blob is doomed before it has been unused for the grace."""
        young = [b for b in self._held(state.rows, "blobs") if b[3] is not None and b[3] - b[2] <= SWEEP_GRACE_MS]
        return "a blob is doomed within its grace" if young else None

    def lasting(self, state: State) -> str | None:
        """Whatever was interrupted, one sweep an hour later leaves what is referenced, and a writer can write."""
        key = (state.rows, state.now)
        if key not in self._recovered:
            rows, _ = self.store.act(_recover, rows=state.rows, now=state.now + HOUR)
            self._recovered[key] = self._left(rows)
        return self._recovered[key]

    def _left(self, rows: Rows) -> str | None:
        wanted = self._referenced(rows)
        if {blob[0] for blob in self._held(rows, "blobs")} != wanted:
            return "a sweep leaves an unreferenced blob"
        if {content[0] for content in self._held(rows, "blob_contents")} != wanted:
            return "a sweep leaves an unreferenced content"
        return "a writer waits for ever" if self.store.act(_blocked, rows=rows, now=0)[1] else None

    def _fates(self, state: State) -> Iterator[tuple[str, State]]:
        if state.now < self._last_instant:
            yield "an hour passes", state._replace(now=state.now + HOUR)
        for scope, *_ in self._held(state.rows, "owners"):
            rows, _ = self.store.act(_retire, scope, rows=state.rows, now=state.now)
            yield f"{scope} retires", self._wrote(state, rows, synced=True)
        if state.powered:
            for lost, rows in enumerate((state.rows, *state.unsynced[::-1])):
                actors = tuple((name, Actor()) for name, _ in state.actors)
                yield f"the power goes, with it the last {lost} batches", State(rows, (), state.now, actors, False)

    def _wrote(self, state: State, rows: Rows, *, synced: bool) -> State:
        if synced or not state.powered:
            return state._replace(rows=rows, unsynced=())
        return state if rows == state.rows else state._replace(rows=rows, unsynced=(*state.unsynced, state.rows))

    def _held(self, rows: Rows, table: str) -> tuple[tuple[Any, ...], ...]:
        return rows[self.store.tables.index(table)]

    def _referenced(self, rows: Rows) -> set[str]:
        """The digests that entries and pending waits name, found by another road than the statements'."""
        waits = {row[7] for row in self._held(rows, "awakeables") if row[5] == "pending"}
        return ({row[8] for row in self._held(rows, "journal")} | waits) - {None}


def _write(name: str, script: Any) -> str:
    """An attempt that records the content as its step's value."""
    journal = SqlJournal(script, SqliteBlobs(script))
    attempt, key = _attempt(name), EntryKey(f"x-{name}", "step", "in")
    if not journal.claim(key, attempt=attempt, token=name).recorded:
        journal.record(key, attempt=attempt, token=name, value=CONTENT)
    return "recorded"


def _resolve(name: str, script: Any) -> str:
    """Somebody who resolves a wait with the content."""
    journal = SqlJournal(script, SqliteBlobs(script))
    SqlAwakeables(script, journal).resolve(f"t-{name}", CONTENT, at=script.instant())
    return "resolved"


def _sweep(name: str, script: Any) -> list[str]:
    """An engine that sweeps."""
    journal = SqlJournal(script, SqliteBlobs(script))
    return journal.sweep(older_than=script.instant() - SWEEP_GRACE_MS)


PROGRAMS: dict[str, Any] = {"w": _write, "a": _resolve, "s": _sweep}


def _prepare(store: Any, names: tuple[str, ...]) -> None:
    """An owner for every writer, a wait for every resolver, and the content, unreferenced as a crash leaves it."""
    for name in names:
        if name[0] in "wa":
            pinned = {"scope": name, "pins": "{}", "plan_ref": "p", "input_hash": None}
            store.run(call("open_owner", **pinned, run_id=f"r-{name}", holder="h", execution_id=f"x-{name}"))
        if name[0] == "a":
            wait = Awakeable(f"t-{name}", f"x-{name}", "wait", created_at=0, deadline=99 * HOUR)
            SqlAwakeables(store, SqlJournal(store, SqliteBlobs(store))).mint(wait)
    SqliteBlobs(store).put(CONTENT)


def _retire(store: Any, scope: str) -> None:
    collection = SqlJournal(store, SqliteBlobs(store)).collection(f"x-{scope}")
    store.run(*collection, call("retire_owner", scope=scope, execution_id=f"x-{scope}"))


def _recover(store: Any) -> None:
    """Sweep once, undisturbed."""
    SqlJournal(store, SqliteBlobs(store)).sweep(older_than=store.instant - SWEEP_GRACE_MS)


def _blocked(store: Any) -> bool:
    """Whether a writer would have to wait."""
    try:
        SqliteBlobs(store).put(CONTENT)
    except Restart:
        return True
    return False


def _attempt(name: str) -> Attempt:
    return Attempt(name, f"x-{name}", f"r-{name}", "h")


def _moved(state: State, name: str, actor: Actor) -> State:
    return state._replace(actors=tuple((n, actor if n == name else a) for n, a in state.actors))
