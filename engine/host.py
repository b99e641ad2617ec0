"""An engine: one process's holder, its keeper and the scopes it opens, over one storage profile."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from engine.archive import Archive
from engine.blob_pass import BlobPass
from engine.clock import Chance, Clock, SystemClock
from engine.errors import EngineClosed, StorageFailure
from engine.execution.callbacks import Callbacks
from engine.execution.endings import Endings
from engine.execution.execution import Execution
from engine.execution.finished import FinishedExecution
from engine.execution.held import Held, Room
from engine.execution.keeper import Keeper
from engine.execution.leases import Leases
from engine.execution.stopping import Stopping
from engine.history import History
from engine.ids import require_host_scope, require_run_id
from engine.owners import Opened, Owner, Owners
from engine.pins import Pins
from engine.pipeline.checkpoints import Limits
from engine.runs import RunRow, Runs
from engine.secrets import SecretGuard
from engine.shapes import Connector, RunStatus
from engine.spans import Spans
from engine.storage import preflight

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engine.errors import ContextfulError
    from engine.pipeline.declaration import Destination
    from engine.profile import Profile
    from engine.trace import Caller

_log = logging.getLogger("contextful")


def log_retry(step: str, attempt: int, failure: ContextfulError, delay_ms: int) -> None:
    """Say on the log that a step is tried again."""
    _log.info("step %s, attempt %d: %s; again in %d ms", step, attempt, failure, delay_ms)


@dataclass(frozen=True, slots=True)
class Settings:
    """What an engine is told once: the project, the site that writes, what to mask, where effects may go.

    `pepper` keys the digests of protected columns; None where no table hashes one. `caller` is the span runs belong to.
    """

    project: str
    site_id: str
    guard: SecretGuard = field(default_factory=lambda: SecretGuard({}))
    destinations: Mapping[str, Destination] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    pepper: str | None = field(default=None, repr=False)
    caller: Caller | None = None


class Engine:
    """Opens scopes for work. Use it in a `with` block: leaving it records that its holder is gone."""

    def __init__(
        self,
        profile: Profile,
        settings: Settings,
        *,
        clock: Clock | None = None,
        chance: Chance | None = None,
        noticed: Callable[[str, int, ContextfulError, int], None] = log_retry,
    ) -> None:
        preflight(profile, project=settings.project)
        self.profile = profile
        self.settings = settings
        self.clock = clock or SystemClock()
        self.chance = chance or Chance()
        self.history = History(profile.objects)
        self.archive = Archive(profile.database, self.history)
        self.spans = Spans(settings.caller)
        self.runs = Runs(profile.database)
        self.owners = Owners(profile.database, profile.journal, self.chance)
        self.keeper = Keeper(self.clock)
        self.leases = Leases(profile.database, self.clock, holder=self.chance.holder_id(), keeper=self.keeper)
        self.stopping = Stopping(profile.database, holder=self.leases.holder, keeper=self.keeper)
        self.room = Room(
            profile.database,
            profile.journal,
            self.owners,
            self.history,
            self.archive,
            self.leases,
            self.stopping,
            profile.admission,
            Callbacks(),
            self.clock,
            self.chance,
            settings.guard,
            noticed,
            Endings(self.spans, profile.publish),
        )
        self._closed = False
        self.archive.repair()
        self.reap()
        self._blobs = BlobPass(profile.database, profile.journal, self.clock)
        self._blobs.make_if_due()

    @overload
    def open(
        self,
        scope: str,
        *,
        plan: str,
        pins: Mapping[str, str] | None = ...,
        once: Literal[False] = ...,
        run_id: str | None = ...,
    ) -> Execution: ...

    @overload
    def open(
        self,
        scope: str,
        *,
        plan: str,
        pins: Mapping[str, str] | None = ...,
        once: bool,
        run_id: str | None = ...,
    ) -> Execution | FinishedExecution: ...

    def open(
        self,
        scope: str,
        *,
        plan: str,
        pins: Mapping[str, str] | None = None,
        once: bool = False,
        run_id: str | None = None,
    ) -> Execution | FinishedExecution:
        """Open the host scope `scope` under the plan reference `plan`, resuming what is pending under the same pins.

        After success a scope's next open is a fresh execution, which would do everything again; with `once` it returns
        the finished one's recorded values instead, which only an open with `once` keeps: say it at every open.

        Raise `ExecutionLive` while another attempt is alive, `ExecutionPinMismatch` when the pending execution was
        opened under another plan or other pins, `EngineClosed` once the engine is closed, `HostScopeUnusable` and
        `RunIdUnusable` for names that none can be.
        """
        self._require_open()
        require_host_scope(scope)
        run_id = self.chance.run_id() if run_id is None else run_id
        require_run_id(run_id)
        owner_scope = f"host:{scope}"
        pinned = Pins(plan, identities=tuple(sorted((pins or {}).items())))
        run = self.new_run(run_id, plan_ref=plan, host_scope=scope)
        while (finished := self._finished(owner_scope, pinned, once=once)) is None:
            opened = self._opened(owner_scope, pinned, run=run)
            if opened.owner.finished_at is None:
                return Execution(
                    self.room,
                    Held(self.room, opened),
                    awakeables=self.profile.awakeables,
                    guard=self.settings.guard,
                    destinations=self.settings.destinations,
                    once=once,
                )
            # Another attempt finished it between our look and our open: look again.
        return FinishedExecution(finished, self.profile.journal)

    def hold(self, scope: str, pins: Pins, *, run: RunRow) -> Held:
        """Hold `scope` for the attempt `run`; what refuses it is also appended to the run history."""
        self._require_open()
        return Held(self.room, self._opened(scope, pins, run=run))

    def new_run(self, run_id: str, *, plan_ref: str, connector: Connector | None = None, **names: Any) -> RunRow:
        """A run row as it is at open."""
        return RunRow(
            run_id,
            RunStatus.RUNNING,
            self.profile.database.now(),
            plan_ref=plan_ref,
            connector=connector,
            site_id=self.settings.site_id,
            trace_id=self.trace_id(),
            **names,
        )

    def trace_id(self) -> str:
        """The caller's trace, or a fresh one (run.record.trace-context)."""
        return self.settings.caller.trace_id if self.settings.caller else self.chance.trace_id()

    def reap(self) -> list[RunRow]:
        """Close orphaned runs, in the catalog and in the history (run.record.orphan-reap)."""
        reaped = self.runs.reap()
        for row in reaped:
            self.archive.carry(row)
        return reaped

    def close_overtaken(self, execution_id: str) -> None:
        """Close as orphans the runs of attempts from which the execution's owner was taken (run.record.orphan-reap).

        What cannot be done now, the next start does.
        """
        try:
            for row in self.runs.reap_overtaken(execution_id):
                self.archive.carry(row)
        except StorageFailure:
            _log.warning("a run of %s that was overtaken is not closed yet", execution_id, exc_info=True)

    def stop(self, reason: str) -> None:
        """Stop whatever is open and whatever is opened later: every run ends canceled, to be resumed by another engine.

        Another thread calls it, never a signal's handler: it takes locks.
        """
        self.stopping.stop(reason)

    def close(self) -> None:
        """Record the holder's exit and close the stores; open handles stay pending and are renewed no more.

        Once is enough: what is closed stays so.
        """
        if self._closed:
            return
        self.keeper.stop()
        self.leases.exit()
        self.profile.close()
        self._closed = True

    def __enter__(self) -> Self:
        """Use the engine in a `with` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def _require_open(self) -> None:
        if self.leases.leaving:
            raise EngineClosed

    def _opened(self, scope: str, pins: Pins, *, run: RunRow) -> Opened:
        self._blobs.make_if_due()
        self.leases.register()
        run = replace(run, trace_id=self.spans.begin(run))
        try:
            self.room.admission.undo(scope)
            opened = self.owners.open(scope, pins, run=run, holder=self.leases.holder)
        except Exception:
            self._append_refused(run)
            self.spans.forget(run.run_id)
            raise
        if opened.run.run_id != run.run_id or opened.owner.finished_at is not None:
            self.spans.forget(run.run_id)  # it goes on as the attempt that waited, or there is nothing to do
        if opened.resumed:
            self.close_overtaken(opened.owner.execution_id)
        return opened

    def _finished(self, scope: str, pins: Pins, *, once: bool) -> Owner | None:
        """The finished owner that `once` asks for; without `once` a finished owner makes room."""
        owner = self.owners.read(scope)
        if owner is None or owner.finished_at is None:
            return None
        if once and owner.pins == pins.text:
            return owner
        self.owners.withdraw(owner)
        return None

    def _append_refused(self, run: RunRow) -> None:
        # The refusal is what the caller must see; a store that fails on top of it must not hide it.
        with suppress(Exception):
            row = self.runs.get(run.run_id)
            if row is not None and row.ended_at is not None:
                self.archive.carry(row)
                if row.trace_id == run.trace_id:  # not of an earlier run that has the id already
                    self.spans.end(row)
