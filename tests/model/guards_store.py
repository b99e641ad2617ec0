"""The engine's own course of a guarded step as an actor of a model, one batch or request a turn, over real statements.

To what `replay` does this adds a store whose answers may be lost: the batch applied, or still on its way. What a turn
reads of its engine (the clock, how long its lease is known to run) is part of its history, as the answers are.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from engine.errors import ContextfulError, Refused, StorageBindingUnavailable
from engine.execution.leases import Leases
from engine.ports import Call
from engine.sql import call, statement
from tests.model.replay import Blocked, History, Mutations, Restart, Rows, Script, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Adrift: TypeAlias = "tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]"
"""A batch that is still on its way: its statements by name, each with its arguments."""

MOVING = ("holders", "owners", "runs", "journal", "guards", "guard_audit")
"""The tables that the model's actors write; the guards are put last, so that their triggers hold nobody off."""

TABLES = ("meta", "holders", "owners", "leases", "guards", "runs", "stops", "journal", "blobs", "awakeables")


class Sees(NamedTuple):
    """What an engine's other threads have left for the one whose turn it is."""

    known_until: int
    leaving: bool


class Past:
    """An actor's history. Equal ones are one object, so that states compare quickly."""

    __slots__ = ("events",)

    def __init__(self, events: History) -> None:
        self.events = events


AFRESH: Final = Past(())


class Move(NamedTuple):
    """What a turn left: as `Turn`, with the token under which a request left and a batch that is on its way."""

    rows: Rows
    past: Past
    on: str
    result: Any
    did: str
    sent: str | None
    adrift: Adrift | None


class GuardStore(Store):
    """A `Store` of the tables that guards have to do with; a mutation may break a trigger or a view as well."""

    def __init__(self, *, mutations: Mutations | None = None) -> None:
        super().__init__(*TABLES, mutations=mutations)
        self.run(call("set_meta", name="project", value="p"))
        self.tables = MOVING
        for name in self._mutations:
            if name.startswith("create_"):
                self._recreate(name.removeprefix("create_"), self._mutations[name](statement(name)).text)
        self._rows = self.empty = self._read()
        self._moves: dict[Any, Move] = {}
        self._pasts = {AFRESH.events: AFRESH}

    def move(self, program: Callable[[Any], Any], past: Past, rows: Rows, *, now: int, answer: Any, sees: Sees) -> Move:
        """Give the actor that runs `program` and has this past its next turn."""
        key = (program, past, rows, now, answer, sees)
        if key not in self._moves:
            self._put(rows, now=now)
            self._moves[key] = self._moved(program, GuardScript(self, past.events, answer, sees))
        return self._moves[key]

    def rows(self) -> Rows:
        """What the tables hold."""
        return self._settle()

    def put_back(self, rows: Rows) -> None:
        """Have the tables hold `rows` again."""
        self._settle()
        self._put(rows, now=self.instant)

    def elapsed(self) -> int:
        """The engines' own time goes with the store's."""
        return self.instant

    def _moved(self, program: Callable[[Any], Any], script: GuardScript) -> Move:
        result = None
        try:
            result, on = program(script), "ended"
        except Blocked as blocked:
            on = blocked.on
        except Restart:
            script.history, on = script.history[: script.marked], "writes"
        except ContextfulError as error:
            result, on = type(error).__name__, "ended"
        past = self._pasts.setdefault(script.history, Past(script.history)) if on != "ended" else AFRESH
        return Move(self._settle(), past, on, result, script.did, script.sent, script.adrift)

    def _put(self, rows: Rows, *, now: int) -> None:
        self.instant = now
        if rows.tables == self._rows.tables:
            return
        self._connection.execute("DELETE FROM guards")
        for table, wanted, held in zip(self.tables, rows.tables, self._rows.tables, strict=True):
            if wanted != held or table == "guards":
                self._connection.execute(f"DELETE FROM {table}")
                for row in wanted:
                    self._connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        self._rows = rows

    def _recreate(self, name: str, text: str) -> None:
        kind = "VIEW" if text.startswith("CREATE VIEW") else "TRIGGER"
        self._connection.execute(f"DROP {kind} {name}")
        self._connection.execute(text)


class GuardScript(Script):
    """The `Database` and the `Clock` of one turn of one engine whose store may lose answers."""

    def __init__(self, store: GuardStore, history: History, answer: Any, sees: Sees) -> None:
        super().__init__(store, history, answer)
        self.sees = sees
        self.sent: str | None = None
        self.adrift: Adrift | None = None
        self.marked = 0

    def mark(self) -> None:
        """Note the place to which a program goes back that waits and looks again."""
        self.marked = self._told

    def run(self, *calls: Call) -> list[Any]:
        """Answer a batch made before, or make it: the turn's one act."""
        if self._told == len(self.history):
            reads = all(c.statement.reads for c in calls)
            fate = f", its answer {self._answer}" if self._answer else ""
            self._spend("reads" if reads else "writes", did=" + ".join(c.statement.name for c in calls) + fate)
            self.history += (self._outcome(calls, reads=reads),)
        kind, told = self._next()
        if kind == "refused":
            raise Refused(constraint=told)
        if kind == "lost":
            raise StorageBindingUnavailable(place="the store", reason="no answer", applied=told)
        return [list(rows) for rows in told]

    def now(self) -> int:
        """The instant, as part of the history."""
        return int(self.read("now", self._store.now()))

    def elapsed(self) -> int:
        """The engine's own time goes with the store's."""
        return int(self.read("now", self._store.now()))

    def read(self, what: str, value: Any) -> Any:
        """Read something of the engine's that others change."""
        if self._told == len(self.history):
            self.history += ((what, value),)
        kind, told = self._next()
        assert kind == what, f"the program read {what} where it had done {kind}"
        return told

    def leaves(self, token: str) -> None:
        """A request leaves under the guard `token`."""
        if self._told == len(self.history):
            self.sent = token
        self.read("left", token)

    def _outcome(self, calls: tuple[Call, ...], *, reads: bool) -> tuple[str, Any]:
        if self._answer == "late":
            self.adrift = afloat(calls)
            return "lost", "unknown"
        try:
            rows = self._store.run(*calls)
        except Refused as refusal:
            return ("lost", "unknown") if self._answer == "lost" else ("refused", refusal.constraint)
        if self._answer == "lost":
            return "lost", "no" if reads else "unknown"
        return "rows", tuple(tuple(each) for each in rows)


class SeenLeases(Leases):
    """An engine's leases as its step's thread sees them; its keeper is another actor."""

    def __init__(self, script: Any, *, holder: str) -> None:
        self._script = script
        nobody: Any = None
        super().__init__(script, script, holder=holder, keeper=nobody)

    def known_until(self, _: str) -> int:
        """As far as the keeper has come."""
        return int(self._script.read("known", self._script.sees.known_until))

    def register(self) -> None:
        """Leave it to the keeper, whose turn may come at any time."""

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Count a callback in, unless the engine is leaving by now."""
        self._leaving = self._script.read("leaving", self._script.sees.leaving)
        with super().at_work():
            yield


class Tokens:
    """Chance that draws names which read well, the same ones in every replay."""

    def __init__(self, name: str, *, execution: str) -> None:
        self._name = name
        self._execution = execution
        self._numbers = itertools.count(1)

    def guard_token(self) -> str:
        """The attempt's name and a number."""
        return f"{self._name}{next(self._numbers)}"

    def execution_id(self) -> str:
        """The one execution there is."""
        return self._execution

    def jitter(self, _: int) -> int:
        """None."""
        return 0


def afloat(calls: tuple[Call, ...]) -> Adrift:
    """The batch as something that can be on its way."""
    return tuple((each.statement.name, tuple(sorted(each.arguments.items()))) for each in calls)


def committed(store: GuardStore, batch: Adrift) -> bool:
    """Apply a batch that was on its way; tell whether the store took it."""
    try:
        store.run(*(Call(statement(name), dict(arguments)) for name, arguments in batch))
    except Refused:
        return False
    return True
