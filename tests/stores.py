"""A project's store under one profile, with short words for what tests do to it. Nothing here names an adapter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from engine.clock import Chance, Clock
from engine.execution.execution import Execution
from engine.host import Engine, Settings
from engine.pins import Pins
from engine.profile import Profile, open_profile
from engine.shapes import Entry, EntryKey, RunStatus
from engine.storage import initialize

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from engine.errors import ContextfulError
    from engine.execution.call import Call
    from engine.execution.held import Held
    from engine.owners import Owner
    from engine.pipeline.declaration import Destination
    from engine.runs import RunRow
    from tests.clocks import SettableClock

PROJECT: Final = "demo"
LEASE: Final = 30_000
MIB: Final = 1 << 20


@dataclass
class Store:
    """One folder under one profile. Every `engine` is a process of its own in effect: its own connection and holder."""

    profile_name: str
    root: Path
    clock: SettableClock
    settings: Callable[[], dict[str, str]]
    over: Callable[[Mapping[str, str]], None] = lambda _: None
    environ: dict[str, str] = field(init=False)
    opened: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.environ = self.settings()

    def initialized(self) -> Store:
        profile = self.profile()
        initialize(profile, project=PROJECT)
        return self

    def profile(self, *, clock: Clock | None = None) -> Profile:
        profile = open_profile(self.profile_name, self.root, clock=clock or self.clock, environ=self.environ)
        self.opened.append(profile.close)
        return profile

    def engine(
        self,
        *,
        project: str = PROJECT,
        destinations: Mapping[str, Destination] | None = None,
        noticed: Callable[[str, int, ContextfulError, int], None] = lambda *_: None,
        seed: int | None = None,
    ) -> Engine:
        settings = Settings(project, "site-1", destinations=destinations or {})
        chance = Chance() if seed is None else Chance.seeded(seed)
        engine = Engine(self.profile(), settings, clock=self.clock, chance=chance, noticed=noticed)
        self.opened.append(engine.keeper.stop)
        return engine

    def stalled(self, **options: Any) -> Engine:
        """An engine that renews nothing, as a process does that hangs or is gone: its keeper's clock stands."""
        engine = self.engine(**options)
        engine.keeper._clock = type(self.clock)(self.clock.now())
        return engine

    def wake(self, engine: Engine) -> None:
        """Let a stalled engine's keeper see what time it is."""
        engine.keeper._clock = self.clock
        engine.keeper.wake()

    @property
    def here(self) -> Engine:
        """The engine of tests that need one only."""
        if "_here" not in self.__dict__:
            self.__dict__["_here"] = self.engine()
        return cast("Engine", self.__dict__["_here"])

    def open(
        self, scope: str = "job", *, plan: str = "plan-a", engine: Engine | None = None, **options: Any
    ) -> Execution:
        execution = (engine or self.here).open(scope, plan=plan, **options)
        assert isinstance(execution, Execution)
        return execution

    def elsewhere(self, scope: str = "job", **options: Any) -> Execution:
        """Open `scope` in another process, in effect; its lease lapses with the clock."""
        return self.open(scope, engine=self.stalled(), **options)

    def held(self, scope: str = "job", *, plan: str = "plan-a", engine: Engine | None = None) -> Held:
        engine = engine or self.here
        run = engine.new_run(engine.chance.run_id(), plan_ref=plan, host_scope=scope)
        return engine.hold(f"host:{scope}", Pins(plan), run=run)

    def owner(self, scope: str = "job") -> Owner | None:
        return self.here.owners.read(f"host:{scope}")

    def run(self, run_id: str) -> RunRow:
        row = self.here.runs.get(run_id)
        assert row is not None
        return row

    def statuses(self) -> list[RunStatus]:
        return [row.status for row in reversed(self.here.runs.since(0, ceiling=100))]

    def entries(self, execution_id: str) -> list[Entry]:
        return self.here.profile.journal.entries(execution_id)

    def recorded(self, execution_id: str) -> list[str]:
        return [entry.key.step for entry in self.entries(execution_id) if entry.recorded]

    def twin(self, name: str) -> Store:
        """A second store of the same kind, at the same instant, that nothing has happened in."""
        twin = Store(
            self.profile_name, self.root.with_name(name), type(self.clock)(), self.settings, self.over
        ).initialized()
        self.opened.append(twin.close)
        return twin

    def close(self) -> None:
        while self.opened:
            self.opened.pop()()

    def discard(self) -> None:
        """Close it for good: what it was kept in is another's from now on."""
        self.close()
        self.over(self.environ)


@dataclass
class Effect:
    """An effect that counts its calls and keeps the keys they went out under."""

    answer: Any = "done"
    keys: list[str] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)

    def __call__(self, call: Call) -> Any:
        self.keys.append(call.idempotency_key)
        self.attempts.append(call.attempt)
        return self.answer() if callable(self.answer) else self.answer

    @property
    def calls(self) -> int:
        return len(self.keys)


class Died(BaseException):
    """What a test raises in an effect whose process ends there."""


def died(_: Call) -> None:
    raise Died


def failing(*failures: Exception | None, answer: Any = "done") -> Callable[[], Any]:
    """An answer that raises each of `failures` in turn and is `answer` from then on."""
    left = list(failures)

    def next_answer() -> Any:
        failure = left.pop(0) if left else None
        if failure is not None:
            raise failure
        return answer

    return next_answer


def key(held: Held, step: str = "one", input_hash: str = "in") -> EntryKey:
    return EntryKey(held.attempt.execution_id, step, input_hash)
