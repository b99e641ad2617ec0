"""A run of an export as the command line sees it: watched, waited for, stopped on request."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engine.cli import output, session
from engine.cli.firing import Patience
from engine.cli.signals import stopping
from engine.cli.sitting import SittingOut
from engine.cli.watching import EVERY_S
from engine.exports.run import ExportRun

if TYPE_CHECKING:
    from engine.errors import ContextfulError
    from engine.exports.outbox import Batch, Decision
    from engine.exports.run import Exported
    from engine.pipeline.declaration import Export
    from engine.project import Project
    from engine.runs import RunRow


class Lines:
    """Tells of an export in plain lines: as it opens, what it has decided, how far it is every two seconds, its end."""

    def __init__(self, export: str) -> None:
        self._export = export
        self._decision: Decision | None = None
        self._batches = 0
        self._rows = 0
        self._said = time.monotonic()

    def opened(self, run: RunRow) -> None:
        """Say that the run began."""
        self._batches = self._rows = 0
        output.say(f"{self._export}: run {run.run_id} opened")

    def decided(self, decision: Decision) -> None:
        """Say how much there is to publish."""
        self._decision = decision
        rows = output.counted(decision.rows, "row")
        output.say(f"{self._export}: {rows} ({output.size(decision.bytes)}) in {_batches(decision.batches)}")

    def delivered(self, batch: Batch, *, replayed: bool) -> None:  # noqa: ARG002 - told at the end
        """Say how far it is, if that has not been said lately."""
        self._batches += 1
        self._rows += batch.rows
        self._progress()

    def retrying(self, step: str, attempt: int, failure: ContextfulError, delay_ms: int) -> None:
        """Say what is waited for, if nothing has been said lately."""
        self._progress(f"; {step} attempt {attempt}: {failure}; again in {delay_ms / 1000:.1f} s")

    def closed(self, run: RunRow) -> None:
        """Say how the run ended."""
        output.say(f"{self._export}: run {run.run_id} {run.status}")

    def _progress(self, waiting: str = "") -> None:
        if self._decision is not None and time.monotonic() - self._said >= EVERY_S:
            self._said = time.monotonic()
            done = f"{self._batches} of {_batches(self._decision.batches)} delivered"
            output.say(f"{self._export}: {done}, {output.counted(self._rows, 'row')}{waiting}")


def exported(
    project: Project, export: Export, *, run_id: str | None, site: str | None, site_env: str | None, wait_ms: int
) -> Exported:
    """Run `export` once. Raise what refuses before it is held: secrets, site id, storage, a live owner, a guard."""
    secrets, lines = project.export_secrets(export), Lines(export.name)
    with (
        session.engine(project, site=site, site_env=site_env, noticed=lines.retrying) as engine,
        stopping(engine.stop),
    ):
        return ExportRun(engine, export, secrets=secrets, watcher=lines).run(
            run_id,
            await_live=Patience(wait_ms, check=engine.stopping.check),
            await_due=SittingOut(wait_ms, engine.profile.database.now, engine.stopping.check),
        )


def _batches(count: int) -> str:
    return f"{count:,} batch{'es' * (count != 1)}"
