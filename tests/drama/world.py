"""One project of a drama: its store, its destinations, the clock of everybody in it, and its operator."""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from engine.dump import rows, tables
from engine.execution.keeper import LEASE_MS
from engine.guards.desk import Desk
from engine.guards.guard import OWNER, Guard, Standing
from engine.profile import Profile, open_profile
from engine.runs import Runs
from tests.drama.parts import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.runs import RunRow
    from tests.drama.clock import SceneClock
    from tests.drama.destination import Destination
    from tests.drama.stage import Actor, Troupe
    from tests.local_edge import Edge

PROJECT: Final = "shop"
STATE: Final = ".contextful"
HOUR_MS: Final = 3_600_000
LATER_MS: Final = LEASE_MS + 1_000
"""By then a lease that was running has lapsed."""

WINDOWED: Final = "windowed"
KEYLESS: Final = "keyless"

MANIFEST: Final = """
[project]
name = "shop"
site_id = "here"
[[pipeline]]
id = "orders"
source = {{ kind = "file", path = "orders.jsonl" }}
[[pipeline.table]]
name = "orders"
[[destination]]
name = "windowed"
kind = "http"
url = "{windowed}"
dedup_window = "1h"
[[destination]]
name = "keyless"
kind = "http"
url = "{keyless}"
[[export]]
name = "to-windowed"
destination = "windowed"
table = "orders"
retry = {{ attempts = 1 }}
[[export]]
name = "to-keyless"
destination = "keyless"
table = "orders"
retry = {{ attempts = 1 }}
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """Its document."""
        told: dict[str, Any] = json.loads(self.out)
        return told

    @property
    def error(self) -> str:
        """The name of what refused it."""
        return str(self.json["error"]["name"])


@dataclass
class World:
    """A project in `root` under `profile`; its operator sits at a laptop where the store is behind an edge."""

    root: Path
    profile: str
    troupe: Troupe
    clock: SceneClock
    clock_file: Path
    shops: dict[str, Destination]
    edge: Edge | None
    begins_at: int
    released: list[tuple[str, str]] = field(default_factory=list)
    _met: dict[str, Guard] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.laptop = self.root / "laptop"
        self.laptop.mkdir(parents=True)
        urls = {name: shop.url for name, shop in self.shops.items()}
        (self.root / "contextful.toml").write_text(MANIFEST.format(**urls), encoding="utf-8")

    @property
    def environ(self) -> dict[str, str]:
        """The environment of whoever works at the store itself."""
        usual = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        binding = {"CONTEXTFUL_BINDING_URL": self.edge.private} if self.edge else {}
        return usual | binding | {"HOME": str(self.root), "CONTEXTFUL_STORAGE_PROFILE": self.profile}

    @property
    def credentials(self) -> dict[str, str]:
        """All that the laptop knows."""
        assert self.edge
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.laptop),
            "CONTEXTFUL_OPERATOR_ENDPOINT": self.edge.public,
            "CONTEXTFUL_OPERATOR_CREDENTIAL": self.edge.operator,
        }

    def start(self, scope: str, destination: str, part: str = "charges", **options: Any) -> Actor:
        """Start an engine, a rival or a supervisor for `scope`."""
        return self.troupe.start(
            part,
            **self._place,
            folder=str(ROOT),
            scope=scope,
            destination=destination,
            urls={name: shop.url for name, shop in self.shops.items()},
            give_up=str(self.root / f"{scope}.over"),
            **options,
        )

    def play(self, scope: str, destination: str, **options: Any) -> Actor:
        """An engine from its start to its end."""
        actor = self.start(scope, destination, **options)
        assert actor.ended() in {0, 1, 75}, self.troupe.complaints()
        return actor

    def reap(self, actor: Actor) -> None:
        """Record the exit of an actor that is gone."""
        assert actor.code is not None, "only who has ended is reaped"
        reaper = self.troupe.start("reaps", **self._place, folder=str(ROOT), holder=actor.told["holder"])
        assert reaper.ended() == 0, self.troupe.complaints()

    def advance(self, milliseconds: int = LATER_MS) -> None:
        """Let time pass for everybody, the destinations too."""
        self.clock.advance(milliseconds)
        for shop in self.shops.values():
            shop.ahead_ms = self.clock.ahead_ms

    def sets_out(self) -> None:
        """Begin anew behind the machine's clock, with nobody there who went by this one."""
        self.advance(self.begins_at - self.clock.ahead_ms)

    def guards(self) -> list[Standing]:
        """Every guard that stands, read past every command."""
        return self._desk.guards()

    def guard(self, scope: str) -> Standing | None:
        """The guard that protects the owner of `scope`."""
        return next((each for each in self.guards() if f"{OWNER}{internal(scope)}" in each.guard.protected), None)

    def runs(self, scope: str) -> list[RunRow]:
        """The runs of `scope`, the newest first."""
        return [each for each in Runs(self._store.database).since(0, ceiling=5_000) if each.host_scope == scope]

    def contextful(self, *words: str, laptop: bool = False) -> Answer:
        """Run a command at the store by the scene's clock, or from the laptop, which goes by the Worker's."""
        out, err = (self.root / f"{name}-{next(self._numbers)}" for name in ("out", "err"))
        here = {**self._place, "folder": str(self.root)}
        there = {"folder": str(self.laptop), "environ": self.credentials, "clock": None} if laptop else here
        told = {"words": list(words), "out": str(out), "err": str(err)}
        actor = self.troupe.start("commands", **there, **told)
        code = actor.ended()
        return Answer(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))

    def inspect(self, guard: Guard) -> dict[str, Any]:
        """The guard as `contextful storage guard` shows it to its operator."""
        words = ("storage", "guard", "--project", PROJECT, "--token", guard.token, "--json")
        answer = self.contextful(*words, laptop=self.edge is not None)
        assert answer.code == 0, answer
        [shown] = answer.json["guards"]
        return dict(shown)

    def reconcile(self, guard: Guard, evidence: str, *, value: Any = None, laptop: bool | None = None) -> Answer:
        """`contextful storage reconcile-guard`, by the operator where they sit."""
        laptop = self.edge is not None if laptop is None else laptop
        self._met[guard.token] = guard
        return self.supply(guard.token, evidence, value=value, laptop=laptop)

    def supply(self, token: str, evidence: str, *, value: Any, laptop: bool = False) -> Answer:
        """The same for a guard that may be gone: its receipt is given once more, with the value."""
        words = ["storage", "reconcile-guard", "--project", PROJECT, "--token", token, "--evidence", evidence]
        if value is not None:
            file = self.root / f"value-{next(self._numbers)}"
            file.write_text(json.dumps(value), encoding="utf-8")
            words += ["--value", str(file)]
        answer = self.contextful(*words, "--operator", "ann", "--json", laptop=laptop)
        if answer.code == 0:
            self.released.append((token, evidence))
        if answer.code == 0 and laptop:
            # What the Worker writes it writes by its own clock: everybody is there by now.
            self.advance(max(-self.clock.ahead_ms, 0))
        return answer

    def check_leftovers(self) -> None:
        """No guard is left, and there is a whole audit row of everything that was released by hand."""
        assert self.guards() == []
        audits = self._desk.audits()
        assert [(each.token, each.evidence) for each in audits] == self.released
        for each in audits:
            assert each.operator.startswith("ann")
            assert Guard.of(each.guard) == self._met[each.token], "the audit row is not the guard as it stood"
        [guarded] = [each for each in tables(self._store.tables) if each.name == "guards"]
        assert list(rows(self._store.database, guarded)) == []

    def close(self) -> None:
        """Let the store go."""
        if "_store" in self.__dict__:
            self._store.close()
        self.clock.close()

    @property
    def _place(self) -> dict[str, Any]:
        return {
            "root": str(self.root),
            "state": str(self.root / STATE),
            "profile": self.profile,
            "clock": str(self.clock_file),
            "environ": self.environ,
        }

    @cached_property
    def _store(self) -> Profile:
        return open_profile(self.profile, self.root / STATE, clock=self.clock, environ=self.environ)

    @property
    def _desk(self) -> Desk:
        return Desk(self._store.database, self._store.admission)


def internal(scope: str) -> str:
    """The owner scope of a program's `scope`; an export's is its own already."""
    return scope if scope.startswith("export:") else f"host:{scope}"
