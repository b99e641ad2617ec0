"""`contextful serve`: engines as child processes, and the exit of each recorded once nothing of it is left."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

from engine.cli import output, session
from engine.cli.options import Json, ManifestPath, duration_ms
from engine.cli.parsing import Argument, Misuse, Option
from engine.errors import ContextfulError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from engine.project import Project
    from engine.serve.supervisor import Supervisor
    from engine.serve.wakes import Wakes

PORT: Final = 8080

_STDERR: Final = 2

Host = Annotated[str, Option("--host", envvar="CONTEXTFUL_SERVE_HOST", metavar="HOST", help="Where /healthz answers.")]
Port = Annotated[
    int | None,
    Option("--port", envvar="CONTEXTFUL_SERVE_PORT", metavar="PORT", least=0, most=65535,
           help=f"The port of /healthz, 0 for a free one; {PORT}, and none where a command is given."),
]  # fmt: skip


def _pause_ms(text: str) -> int:
    """Milliseconds between two looks. Raise `Misuse` for no duration, and for none."""
    pause = duration_ms(text)
    if not pause:
        raise Misuse(f"{text!r} leaves no pause between two looks; write one such as 60s")
    return pause


Every = Annotated[
    int,
    Option("--every", envvar="CONTEXTFUL_SERVE_EVERY", metavar="60s", parser=_pause_ms,
           help="How often to look whether something is due; 60s where nothing is said."),
]  # fmt: skip
Command = Annotated[
    list[str] | None,
    Argument(metavar="COMMAND",
             help="What follows --: a command of contextful, run as an engine; serve ends with its exit code."),
]  # fmt: skip


def serve(
    *,
    command: Command = None,
    host: Host = "127.0.0.1",
    port: Port = None,
    every: Every = 60_000,
    manifest: ManifestPath = None,
    json: Json = False,
) -> int:
    """Start engines as child processes: with a command that one, without whatever is due, until it is stopped."""
    from engine.serve.supervisor import Supervisor
    from engine.serve.wakes import Wakes

    _check(command or [])
    answering = _answering(host, PORT if port is None and not command else port)
    with session.project(manifest) as project, answering as address, Wakes() as wakes:
        if address:
            output.say(f"answering at {address}")
        desk = Desk(Supervisor(wakes, Exits(project).record, output.say), manifest, json)
        if command:
            return desk.engine(command)
        Beats(desk, wakes, every / 1000).run()
    if json:
        output.document({"engines": desk.engines})
    else:
        output.text(f"{output.counted(desk.engines, 'engine')} started")
    return 0


@dataclass(frozen=True, slots=True)
class Exits:
    """Records exits in the store of `project`, opened anew each time: it may have been away."""

    project: Project

    def record(self, holders: tuple[str, ...]) -> None:
        """Record that `holders` are gone; one that did so itself stays as it is."""
        from engine.project import Project
        from engine.sql import call

        with Project(self.project.manifest, self.project.environ, self.project.clock) as anew:
            anew.profile.database.run(*(call("exit_holder", holder=holder) for holder in holders))


@dataclass(slots=True)
class Desk:
    """Starts commands as engines, over the manifest serve itself was given."""

    supervisor: Supervisor
    manifest: Path | None
    json: bool
    engines: int = field(default=0, init=False)

    def engine(self, command: list[str], *, stdout: int | None = None) -> int:
        """Run a command as an engine to its end; return its exit code."""
        environ = dict(os.environ)
        if self.manifest:
            environ["CONTEXTFUL_MANIFEST"] = str(self.manifest)
        if self.json:
            environ["CONTEXTFUL_JSON"] = "1"
        self.engines += 1
        # Without -P the working directory would come first on the import path, its files before the library's.
        argv = [sys.executable, "-P", "-m", "engine.cli", *command]
        return self.supervisor.run(argv, environ=environ, stdout=stdout)


@dataclass(frozen=True, slots=True)
class Beats:
    """Goes on with what is due, every `every_s` seconds."""

    desk: Desk
    wakes: Wakes
    every_s: float

    def run(self) -> None:
        """Look, until a stop is asked for. What is wrong at the first look ends it, what is wrong later is said."""
        self._beat()
        while not self.wakes.stopping:
            self.wakes.sleep(self.every_s)
            try:
                self._beat()
            except ContextfulError as failure:
                output.say(output.refused(failure))

    def _beat(self) -> None:
        if self.wakes.stopping or not (scopes := due(self.desk.manifest)):
            return
        output.say(f"due: {', '.join(scopes)}")
        # What an engine prints is no part of the answer of serve.
        code = self.desk.engine(["run", "resume-due"], stdout=_STDERR)
        output.say(f"the engine ended with {code}")


def due(manifest: Path | None) -> list[str]:
    """The scopes whose instant has come and that `run resume-due` can go on with: tables that are declared."""
    from engine.clock import Chance
    from engine.owners import Owners

    with session.store(manifest) as project:
        declared = {f"table:{table.name}" for each in project.manifest.pipelines for table in each.tables}
        owners = Owners(project.profile.database, project.profile.journal, Chance()).all()
        now = project.profile.database.now()
    waited = [owner for owner in owners if owner.wake_at is not None and owner.finished_at is None]
    return [owner.scope for owner in waited if owner.scope in declared and (owner.wake_at or 0) <= now]


def _check(command: list[str]) -> None:
    """Refuse what would leave exits unrecorded: another store than the one they are recorded in, a serve in a serve."""
    if command[:1] == ["serve"]:
        raise Misuse("a serve starts engines, no other serve")
    if any(word.partition("=")[0] == "--manifest" for word in command):
        raise Misuse("--manifest goes before the --, for serve itself has to know the store")


def _answering(host: str, port: int | None) -> AbstractContextManager[str]:
    if port is None:
        return nullcontext("")
    from engine.serve.health import health

    return health(host, port)
