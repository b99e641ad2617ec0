"""Real engine code as the actors of a model: one batch a turn, over a database whose rows are a value.

An actor is a program (a call of the engine's own code) and its history: the answer to everything it has waited for so
far. A turn runs the program from its beginning, answers what it asks from the history, lets it do one thing more (a
batch of real statements, an effect, a wait) and goes on until it would do the next. So every interleaving of batches
is explored with no second description of the code, and a stall or a crash between any two is only a matter of order.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from engine.errors import ContextfulError, Refused
from engine.execution.steps import SIBLING_POLL_MS
from engine.local.sqlite import SqliteDatabase
from engine.ports import Call
from engine.sql import schema

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from engine.ports import Statement

History = tuple[tuple[str, Any], ...]
Mutations: TypeAlias = "Mapping[str, Callable[[Statement], Statement]]"


class Rows:
    """What the tables of a store hold, in its order. Equal rows are one object, so that states compare quickly."""

    __slots__ = ("tables",)

    def __init__(self, tables: tuple[Any, ...]) -> None:
        self.tables = tables

    def __getitem__(self, table: int) -> tuple[tuple[Any, ...], ...]:
        held: tuple[tuple[Any, ...], ...] = self.tables[table]
        return held

    def __repr__(self) -> str:
        return repr([table for table in self.tables if table])


def without(old: str, new: str = "") -> Callable[[Statement], Statement]:
    """A mutation that puts `new` in the place of the condition `old`."""

    def mutate(statement: Statement) -> Statement:
        assert old in statement.text, f"{statement.name} does not say {old!r}"
        return replace(statement, text=statement.text.replace(old, new))

    return mutate


def unsynced(statement: Statement) -> Statement:
    """A mutation that leaves the statement for a later one to bring to the disk."""
    return replace(statement, durable=False)


class Blocked(BaseException):
    """The program has had its turn; `on` names what it does next."""

    def __init__(self, on: str) -> None:
        super().__init__(on)
        self.on = on


class Restart(BaseException):
    """The program would wait and go back to the head of its loop, where it stands as it began."""


class Turn(NamedTuple):
    """What a turn left: the rows, the actor's history, what it does next or how it ended, and what it did."""

    rows: Rows
    history: History
    on: str
    result: Any
    synced: bool
    did: str


class Store:
    """A SQLite database put to any rows and read back; `mutations` break statements by name."""

    def __init__(self, *tables: str, mutations: Mutations | None = None) -> None:
        self.instant = 0
        self._database = SqliteDatabase(Path(":memory:"), clock=self)
        self._database.run(*schema(*tables))
        self._connection = self._database._connection
        listed = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")
        self.tables = tuple(name for (name,) in listed)
        self._mutations = mutations or {}
        self._known: dict[Any, Rows] = {}
        self._turns: dict[Any, Turn] = {}
        self._acts: dict[Any, tuple[Rows, Any]] = {}
        self._rows = self.empty = self._read()
        OPEN.append(self)

    def run(self, *calls: Call) -> list[Any]:
        """Run a batch."""
        return self._database.run(*self.mutated(calls))

    def mutated(self, calls: tuple[Call, ...]) -> list[Call]:
        """The calls as this store runs them."""
        names = [c.statement.name for c in calls]
        return [
            Call(self._mutations[name](c.statement), c.arguments) if name in self._mutations else c
            for name, c in zip(names, calls, strict=True)
        ]

    def now(self) -> int:
        """The instant the model says it is."""
        return self.instant

    def elapsed(self) -> int:
        """Never asked: nothing of the store sends."""
        raise NotImplementedError

    def wait(self, event: threading.Event, milliseconds: float) -> bool:
        """Never asked: the store only reads the clock."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def act(self, act: Callable[..., Any], *arguments: Any, rows: Rows, now: int) -> tuple[Rows, Any]:
        """Return what `act(store, *arguments)` makes of `rows`, and what it returns."""
        key = (act, arguments, rows, now)
        if key not in self._acts:
            self._put(rows, now=now)
            result = act(self, *arguments)
            self._acts[key] = self._settle(), result
        return self._acts[key]

    def turn(self, program: Callable[[Script], Any], history: History, rows: Rows, *, now: int, answer: Any) -> Turn:
        """Give the actor that runs `program` and stands at `history` its next turn."""
        key = (program, history, rows, now, answer)
        if key not in self._turns:
            self._put(rows, now=now)
            self._turns[key] = self._play(program, Script(self, history, answer))
        return self._turns[key]

    def _play(self, program: Callable[[Script], Any], script: Script) -> Turn:
        result = None
        try:
            result, on = program(script), "returned"
        except Blocked as blocked:
            on = blocked.on
        except Restart:
            script.history, on = (), "start"
        except ContextfulError as error:
            result, on = type(error).__name__, "raised"
        return Turn(self._settle(), script.history, on, result, script.synced, script.did)

    def _put(self, rows: Rows, *, now: int) -> None:
        self.instant = now
        for table, wanted, held in zip(self.tables, rows.tables, self._rows.tables, strict=True):
            if wanted != held:
                self._connection.execute(f"DELETE FROM {table}")
                for row in wanted:
                    self._connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        self._rows = rows

    def _settle(self) -> Rows:
        self._rows = self._read()
        return self._rows

    def _read(self) -> Rows:
        held = tuple(tuple(self._connection.execute(f"SELECT * FROM {table} ORDER BY 1")) for table in self.tables)
        return self._known.setdefault(held, Rows(held))


OPEN: list[Store] = []
"""The stores a test has opened; they are closed after it."""


class Script:
    """The `Database` and the `Clock` of one turn of one actor."""

    def __init__(self, store: Store, history: History, answer: Any) -> None:
        self.history = history
        self.synced = False
        self.did = ""
        self._store = store
        self._answer = answer
        self._told = 0

    def run(self, *calls: Call) -> list[Any]:
        """Answer a batch made before, or make it: the turn's one act."""
        if self._told == len(self.history):
            self._spend("batch", did=" + ".join(c.statement.name for c in calls))
            self.synced = any(c.statement.durable for c in self._store.mutated(calls))
            try:
                self.history += (("rows", _frozen(self._store.run(*calls))),)
            except Refused as refusal:
                self.history += (("refused", refusal.constraint),)
        kind, told = self._next()
        if kind == "refused":
            raise Refused(constraint=told)
        return [list(rows) for rows in told]

    def now(self) -> int:
        """The instant: what it is used for is in the batch that follows, so the history need not keep it."""
        return self._store.now()

    def elapsed(self) -> int:
        """Never asked: no course of the model is guarded."""
        raise NotImplementedError

    def instant(self) -> int:
        """The instant at which the program first asked."""
        if self._told == len(self.history):
            self.history += (("instant", self._store.now()),)
        return int(self._next()[1])

    def ask(self, what: str) -> Any:
        """Wait for the model's answer to `what`: the turn's one act."""
        if self._told == len(self.history):
            self._spend(what, did=f"{what}: {self._answer}" if self._answer else what)
            self.history += ((what, self._answer),)
        return self._next()[1]

    def wait(self, event: threading.Event, milliseconds: float) -> bool:
        """Wait as long as the model likes."""
        if milliseconds == SIBLING_POLL_MS:
            raise Restart
        self.ask("wait")
        return False

    def _spend(self, on: str, *, did: str) -> None:
        if self.did:
            raise Blocked(on)
        self.did = did

    def _next(self) -> tuple[str, Any]:
        self._told += 1
        return self.history[self._told - 1]


def _frozen(results: list[Any]) -> Any:
    return tuple(tuple(rows) for rows in results)
