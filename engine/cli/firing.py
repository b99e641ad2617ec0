"""One fire as the command line sees it: fired, watched, waited for and summed up."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.cli import output, session
from engine.cli.signals import stopping
from engine.cli.sitting import SittingOut
from engine.cli.watching import watching
from engine.clock import instant
from engine.pipeline.reconcile import scope_of
from engine.pipeline.runner import Outcome, Request, fire
from engine.schedule import RETRYABLE
from engine.shapes import FireState, RunStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.errors import ExecutionLive
    from engine.pipeline.declaration import Pipeline
    from engine.project import Project
    from engine.runs import RunRow

SLICE_S: Final = 0.1
"""How long a wait sleeps before it looks again."""


class Patience:
    """Waits a live owner out for `wait_ms` in all, saying so once an instant it waits for; `check` raises a stop."""

    def __init__(self, wait_ms: int, *, check: Callable[[], None]) -> None:
        self._check = check
        self._until = time.monotonic() + wait_ms / 1000
        self._wait_ms = wait_ms
        self._told = ""

    def __call__(self, live: ExecutionLive) -> bool:
        """Sleep a little; tell whether patience is left."""
        left = self._until - time.monotonic()
        if left <= 0:
            return False
        if self._told != live.attempt:
            self._told = live.attempt
            output.say(
                f"waiting up to {self._wait_ms / 1000:g} s for {live.scope}: attempt {live.attempt} holds it, "
                f"its lease runs until {instant(live.lease_until)}"
            )
        time.sleep(min(SLICE_S, left))
        self._check()
        return True


@dataclass(frozen=True, slots=True)
class Fired:
    """A fire as it stands: its outcome, every run of it, refused ones included, and the tables it leaves pending.

    `interrupted` says that its process was asked to stop.
    """

    pipeline: Pipeline
    outcome: Outcome
    runs: tuple[RunRow, ...]
    pending: frozenset[str | None]
    interrupted: bool = False

    def complaints(self) -> Iterator[str]:
        """What went wrong, each as a named error with the next step."""
        for refusal in self.outcome.refusals:
            yield output.refused(refusal)
        for run in self.outcome.runs:
            if run.error and run.status is not RunStatus.WAITING:
                yield f"{run.error['name']}: {run.projection()['error']['message']}"
        waits = [run for run in self.outcome.runs if run.status is RunStatus.WAITING]
        for run in waits:
            due = instant(run.next_attempt_at)
            yield f"{run.table} waits until {due}: contextful run resume-due goes on then, and so does the next run"
        # Where the failure itself names what must be done first, to run again would only fail again.
        failed = [run for run in self.outcome.runs if run.error and "remedy" not in run.error and run not in waits]
        for run in sorted(failed, key=lambda run: run.table or ""):
            again = f"contextful pipeline run {self.pipeline.id} --table {run.table}"
            if run.table in self.pending:
                yield f"next: {again} asks only for what is not recorded yet"
            elif run.error and run.error["tag"] in RETRYABLE:
                yield f"next: {again} tries it anew: what was in the way may have passed"
        if self.outcome.state is FireState.RUNNING and not waits:
            yield f"fire {self.outcome.fire_id} is at work in another process: contextful status shows how far it is"

    def summary(self) -> Iterator[str]:
        """What each run came to."""
        for run in self.outcome.runs:
            yield f"{run.table}: {_came_to(run)}"
            yield from (f"  {line}" for line in _counted(run))


@dataclass(frozen=True, slots=True)
class Firing:
    """What is fired."""

    project: Project
    pipeline: Pipeline
    run_id: str | None
    idempotency_key: str | None
    wait_ms: int
    fire_id: str | None = None

    def fire(self, *, site: str | None, site_env: str | None) -> Fired:
        """Fire and watch. Raise what refuses before anything runs: secrets, site id, storage."""
        secrets = self.project.secrets(self.pipeline)
        with (
            watching() as watcher,
            session.engine(self.project, site=site, site_env=site_env, noticed=watcher.retrying) as engine,
            stopping(engine.stop),
        ):
            request = Request(
                self.pipeline,
                self.pipeline.tables,
                run_id=self.run_id,
                idempotency_key=self.idempotency_key,
                await_live=Patience(self.wait_ms, check=engine.stopping.check),
                await_due=SittingOut(self.wait_ms, engine.profile.database.now, engine.stopping.check),
                fire_id=self.fire_id,
            )
            outcome = fire(engine, request, secrets=secrets, watcher=watcher)
            known = {run.run_id for run in outcome.runs}
            refused = (run for run in engine.runs.of_fire(outcome.fire_id) if run.run_id not in known)
            pending = (table.name for table in self.pipeline.tables if engine.owners.read(scope_of(table.name)))
            interrupted = engine.stopping.reason is not None
            return Fired(self.pipeline, outcome, (*outcome.runs, *refused), frozenset(pending), interrupted)


def _came_to(run: RunRow) -> str:
    seconds = ((run.ended_at or run.started_at) - run.started_at) / 1000
    pulls = output.counted(run.batches, "pull")
    replayed = f", {run.replayed:,} of them replayed from the journal" if run.replayed else ""
    took = f"from {pulls}{replayed} in {seconds:.1f} s (run {run.run_id})"
    if run.status is RunStatus.WAITING:
        return f"waiting until {instant(run.next_attempt_at)} (run {run.run_id})"
    if not run.status.terminal:
        return f"{run.status} (run {run.run_id})"
    if run.status is not RunStatus.SUCCESS:
        return f"{run.status}, nothing landed {took}"
    return f"{output.counted(run.rows, 'row')} landed ({output.size(run.bytes)}) {took}"


def _counted(run: RunRow) -> Iterator[str]:
    """What did not land as it came: nothing is dropped without being said."""
    if run.skipped:
        yield f"{output.counted(run.skipped, 'input')} skipped: the source declined to land them whole"
    if run.not_admitted:
        yield f"{output.counted(run.not_admitted, 'row')} below the position, not admitted"
    if run.masked:
        yield f"{output.counted(run.masked, 'secret')} masked before anything was recorded"
