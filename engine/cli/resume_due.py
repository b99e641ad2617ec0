"""`contextful run resume-due`: go on with whatever waited for an instant that has come."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

from engine.cli import output, session
from engine.cli.options import Json, ManifestPath, SiteId, SiteIdEnv, duration_ms
from engine.cli.parsing import Option
from engine.cli.pipeline_run import told
from engine.clock import instant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.cli.firing import Fired
    from engine.host import Engine
    from engine.pipeline.waits import Due
    from engine.project import Project

Wait = Annotated[
    int,
    Option("--wait", envvar="CONTEXTFUL_RUN_WAIT", metavar="60s", parser=duration_ms,
           help="Sit out instants that come within so long, and go on then."),
]  # fmt: skip


def resume_due(
    *,
    site_id: SiteId = None,
    site_id_env: SiteIdEnv = None,
    wait: Wait = 0,
    manifest: ManifestPath = None,
    json: Json = False,
) -> int:
    """Go on with every table whose wait is over, under the fire it belongs to; programs reopen their own scopes."""
    from engine.cli.signals import interruptible

    beat = Beat(manifest, site_id, site_id_env)
    with interruptible():
        beat.fire(wait_ms=wait)
        waits = beat.waits()
    if json:
        fires = [told(fired) for fired in beat.fired]
        output.document({"fires": fires, "waiting": [_shown(due, now=waits.now) for due in waits.all]})
    else:
        _tell(beat, waits)
    return max((fired.outcome.exit_code for fired in beat.fired), key=_severity, default=0)


@dataclass(frozen=True, slots=True)
class Waits:
    """What waits at the instant `now`, the earliest first."""

    all: list[Due]
    now: int


@dataclass(slots=True)
class Beat:
    """One look at what is due, and at what comes due while patience lasts: each wait is ended once at most."""

    manifest: Path | None
    site: str | None
    site_env: str | None
    fired: list[Fired] = field(default_factory=list)
    _seen: set[tuple[str, int]] = field(default_factory=set)

    def fire(self, *, wait_ms: int) -> None:
        """Resume what is due, the earliest first; sit out what comes due within `wait_ms`."""
        from engine.cli.sitting import SittingOut

        with self._engine() as (project, _):
            sit_out = SittingOut(wait_ms, now=project.clock.now)
        while True:
            waits = self.waits()
            fresh = [due for due in waits.all if due.table and (due.execution_id, due.wake_at) not in self._seen]
            if not fresh or any(fired.interrupted for fired in self.fired):
                return
            if ready := [due for due in fresh if due.wake_at <= waits.now]:
                self._resume(ready)
            elif not sit_out(fresh[0].scope, fresh[0].wake_at):
                return

    def waits(self) -> Waits:
        """What waits now."""
        from engine.pipeline.waits import waiting

        with self._engine() as (project, engine):
            return Waits(waiting(engine), project.profile.database.now())

    def _resume(self, ready: list[Due]) -> None:
        """Fire the tables of `ready`, those of one fire together."""
        self._seen.update((due.execution_id, due.wake_at) for due in ready)
        groups: dict[tuple[str, str | None], list[str]] = {}
        with session.project(self.manifest) as project:
            declared = {table.name: table.pipeline_id for each in project.manifest.pipelines for table in each.tables}
        for due in ready:
            if (table := due.table) in declared:
                groups.setdefault((declared[table], due.fire_id), []).append(table)
        for (pipeline_id, fire_id), tables in groups.items():
            self.fired.append(self._fire(pipeline_id, fire_id, tables))
            if self.fired[-1].interrupted:
                return

    def _fire(self, pipeline_id: str, fire_id: str | None, tables: list[str]) -> Fired:
        from engine.cli.firing import Firing

        with session.project(self.manifest) as project:
            chosen = session.pipeline(project.manifest, pipeline_id)
            chosen = replace(chosen, tables=tuple(table for table in chosen.tables if table.name in tables))
            firing = Firing(project, chosen, run_id=None, idempotency_key=None, wait_ms=0, fire_id=fire_id)
            return firing.fire(site=self.site, site_env=self.site_env)

    @contextmanager
    def _engine(self) -> Iterator[tuple[Project, Engine]]:
        with (
            session.project(self.manifest) as project,
            session.engine(project, site=self.site, site_env=self.site_env) as engine,
        ):
            yield project, engine


def _tell(beat: Beat, waits: Waits) -> None:
    for fired in beat.fired:
        for line in fired.complaints():
            output.say(line)
        for line in fired.summary():
            output.text(line)
    for due in waits.all:
        output.text(_line(due, now=waits.now))
    if not (beat.fired or waits.all):
        output.text("nothing waits")


def _line(due: Due, *, now: int) -> str:
    from engine.pipeline.chunks import Chunk

    when = instant(due.wake_at)
    if due.wake_at > now:
        return f"{due.scope} waits until {when}"
    if due.table:
        return f"{due.scope} is due since {when} and was not resumed: contextful status says what moves it on"
    kind, _, name = due.scope.partition(":")
    again = "repeat its backfill" if Chunk.of(due.scope) else "run the program that opens it"
    if kind == "export":
        again = f"contextful export run {name}"
    return f"{due.scope} is due since {when}: {again}"


def _shown(due: Due, *, now: int) -> dict[str, Any]:
    return {
        "scope": due.scope,
        "execution_id": due.execution_id,
        "run_id": due.run_id,
        "wake_at": instant(due.wake_at),
        "due": due.wake_at <= now,
        "fire_id": due.fire_id,
    }


def _severity(code: int) -> int:
    """Canceled above failed above not-now above done."""
    return [0, 75, 1, 2, 130].index(code)
