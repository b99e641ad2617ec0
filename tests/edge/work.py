"""One project's work over an edge: a pipeline of three pages, one too large for a row, and a scope of two effects."""

from __future__ import annotations

import importlib
import sys
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from engine.clock import Clock, SystemClock
from engine.corpus.read import ReadFace
from engine.errors import ContextfulError
from engine.execution.execution import Execution
from engine.host import Engine, Settings
from engine.pipeline.declaration import Pipeline, PythonSource, Table
from engine.pipeline.manifest.hashing import hashed
from engine.pipeline.runner import Request, fire
from engine.pipeline.source import Secrets
from engine.profile import Profile, open_profile
from engine.schedule import Schedule
from engine.shapes import INLINE_LIMIT, Pull, RunStatus
from engine.storage import initialize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from engine.execution.call import Call
    from engine.pipeline.source import Ask
    from engine.pipeline.walk import Landing
    from engine.runs import RunRow

PROJECT: Final = "work"
PAGES: Final = (
    [{"id": 0, "text": "a"}, {"id": 1, "text": "b"}],
    [{"id": 2, "text": "c" * (INLINE_LIMIT + 1)}],
    [{"id": 3, "text": "d"}],
)
EFFECTS: Final = ("charge", "mail")


@dataclass
class Silent:
    """A watcher of runs that notes what they are called."""

    run_ids: list[str] = field(default_factory=list)

    def opened(self, run: RunRow) -> None:
        self.run_ids.append(run.run_id)

    def landed(self, run: RunRow, landing: Landing) -> None:
        pass

    def closed(self, run: RunRow) -> None:
        pass


@dataclass
class Work:
    """What is to be done once under `name`, and what it asked of the world: pages, and effects by their keys."""

    name: str
    root: Path
    watcher: Silent = field(default_factory=Silent)
    read: list[int] = field(default_factory=list)
    keys: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def done(self, environ: dict[str, str], *, ahead_ms: int) -> list[ContextfulError]:
        """Do what is left of it in an engine whose clock stands `ahead_ms` ahead; return what went wrong."""
        clock = SystemClock(ahead_ms)
        wrong: list[ContextfulError] = []
        try:
            with (
                closing(opened(environ, self.root, clock=clock)) as profile,
                Engine(profile, Settings(PROJECT, "here"), clock=clock) as engine,
            ):
                for part in (self._pipeline, self._scope):
                    try:
                        wrong += part(engine)
                    except ContextfulError as error:
                        wrong.append(error)
        except ContextfulError as error:
            wrong.append(error)
        return wrong

    def rows(self, profile: Profile) -> list[Any]:
        """The ids that have landed, sorted."""
        return [id_ for (id_,) in ReadFace(profile.objects).read(f"SELECT id FROM {self.name} ORDER BY id").rows]

    def _pipeline(self, engine: Engine) -> list[ContextfulError]:
        source_module(self.root).script = self._pulls
        source = PythonSource(f"{_module(self.root)}:pulls", self.root)
        table = hashed(Table(self.name, "work", source, content_hash="", schedule=Schedule(attempts=1, jitter_ms=0)))
        request = Request(Pipeline(self.name, (table,)), (table,))
        outcome = fire(engine, request, secrets=Secrets({}), watcher=self.watcher)
        return [*outcome.refusals, *(Ended(run) for run in outcome.runs if run.status is not RunStatus.SUCCESS)]

    def _pulls(self, ask: Ask) -> Iterator[Pull]:
        for page in range(ask.position or 0, len(PAGES)):
            self.read.append(page)
            yield Pull(rows=PAGES[page], position=page + 1, more=page + 1 < len(PAGES))
        if ask.position == len(PAGES):
            yield Pull(rows=[], position=len(PAGES), more=False)

    def _scope(self, engine: Engine) -> list[ContextfulError]:
        execution = engine.open(self.name, plan="p", once=True)
        if isinstance(execution, Execution):
            with execution:
                for effect in EFFECTS:
                    execution.step(effect, self._effect(effect))
        return []

    def _effect(self, name: str) -> Callable[[Call], str]:
        def effect(call: Call) -> str:
            self.keys[name].append(call.idempotency_key)
            return name

        return effect


class Ended(ContextfulError):
    """A run that did not succeed, and the name of what it says is the reason."""

    def __init__(self, run: RunRow) -> None:
        super().__init__(f"{run.run_id} ended {run.status}: {run.error}")
        self.run = run


def opened(environ: dict[str, str], root: Path, *, clock: Clock | None = None) -> Profile:
    """The profile behind `environ`."""
    return open_profile("cloudflare-d1", root, clock=clock or SystemClock(), environ=environ)


def initialized(environ: dict[str, str], root: Path) -> None:
    """Make the store ready, and `root` a place to work at."""
    equipped(root)
    with closing(opened(environ, root)) as profile:
        initialize(profile, project=PROJECT)


def equipped(root: Path) -> Path:
    """Lay the module that pipelines read from into `root`: one piece of work at a time is done there."""
    root.mkdir(exist_ok=True)
    (root / f"{_module(root)}.py").write_text("script = None\n\ndef pulls(ask):\n    yield from script(ask)\n")
    return root


def source_module(root: Path) -> Any:
    """The module of the sources in `root`."""
    if str(root) not in sys.path:
        sys.path.append(str(root))
    importlib.invalidate_caches()
    return importlib.import_module(_module(root))


def _module(root: Path) -> str:
    return f"edge_work_source_{root.name}"
