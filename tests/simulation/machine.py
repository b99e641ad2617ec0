"""A machine that keeps one table after a schedule: its engines fire, are stopped, and die at the points they pass.

A point is a call of a port, a wait, or the vendor being asked. A process that dies there releases nothing: what the
interpreter still unwinds of it reaches no port any more. The next one starts when the lease has lapsed.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from engine.errors import CancelTargetNotInFlight
from engine.local import profiles
from engine.pipeline.checkpoints import Limits
from engine.pipeline.declaration import Pipeline, PythonSource, Table
from engine.pipeline.manifest.hashing import hashed
from engine.pipeline.runner import Outcome, Request, fire
from engine.pipeline.source import Secrets
from engine.pipeline.waits import waiting
from engine.schedule import Schedule
from engine.shapes import RunStatus
from engine.stop import stop
from tests.pipeline.conftest import Silent
from tests.simulation import vendor as vendors
from tests.stores import LEASE, Died, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from engine.clock import Clock
    from engine.host import Engine
    from engine.profile import Profile
    from tests.simulation.schedule import Drawn, Incident
    from tests.simulation.vendor import Vendor

PATIENT: Final = Schedule(attempts=3, base_ms=1_000, jitter_ms=0)
JOURNAL: Final = (
    "claim", "renew", "surrender", "park", "drop_claims", "record", "withdraw", "collect", "collect_pulls",
)  # fmt: skip


class LocalStore(Store):
    """A store whose profile is taken without a look through what is installed, which a schedule does too often."""

    def profile(self, *, clock: Clock | None = None) -> Profile:
        return {"sqlite": profiles.sqlite, "file": profiles.file}[self.profile_name](
            self.root, clock=clock or self.clock, environ=self.environ
        )


@dataclass
class Machine:
    """`crashes` and `stops` count what befell it; `told` is what happened, a line an event."""

    store: Store
    vendor: Vendor
    plan: Drawn
    crashes: int = 0
    stops: int = 0
    told: list[str] = field(default_factory=list)
    _engine: Engine | None = None
    _dead: bool = False
    _passed: int = 0

    @property
    def table(self) -> Table:
        source = PythonSource("tests.simulation.vendor:pulls", Path(__file__).parent)
        return hashed(Table("orders", "shop", source, content_hash="", schedule=PATIENT, **self.plan.declared))

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            # Its keeper's clock stands, or it would renew leases at instants that no seed draws.
            self._engine = self.store.stalled()
            if self.plan.checkpoint is not None:
                limits = Limits(checkpoint=self.plan.checkpoint)
                self._engine.settings = replace(self._engine.settings, limits=limits)
        return self._engine

    def beat(self, incident: Incident | None = None) -> Outcome | None:
        """Resume what is due, else fire afresh; None where the process died."""
        vendors.AT_WORK[:] = [self.vendor]
        try:
            with self._befalling(incident):
                due = [each for each in waiting(self.engine) if each.wake_at <= self.store.clock.now()]
                fire_id = due[0].fire_id if due else None
                request = Request(Pipeline("shop", (self.table,)), (self.table,), fire_id=fire_id)
                outcome = fire(self.engine, request, secrets=Secrets({}), watcher=Silent())
        except Died:
            self._bury()
            return None
        runs = ", ".join(f"{run.status} {run.rows} rows, {run.replayed} replayed" for run in outcome.runs)
        refusals = ", ".join(type(refusal).__name__ for refusal in outcome.refusals)
        self.told.append(f"  {outcome.state}: {runs or refusals}, {self._passed} points")
        self._pardon({run.status for run in outcome.runs})
        if self.engine.stopping.reason is not None:
            self.leave()
        return outcome

    def _pardon(self, statuses: set[RunStatus]) -> None:
        """Let the vendor forget what it said where the engine may.

        A stop that recorded nothing releases the owner, and its wait with it (run.cancel.resumable-remains); a step
        that has used its attempts up is left to the next run with a fresh budget.
        """
        self.stops += RunStatus.CANCELED in statuses
        released = self.engine.owners.read("table:orders") is None
        if RunStatus.FAILED in statuses or (RunStatus.CANCELED in statuses and released):
            self.vendor.closed_until = 0

    def _bury(self) -> None:
        self.crashes += 1
        self.told.append(f"  died at point {self._passed}")
        engine = self.engine
        engine.keeper.stop()
        engine.profile.close()
        self._engine, self._dead = None, False
        self.store.clock.advance(LEASE + 1_000)
        if not self._noted():
            self.vendor.closed_until = 0

    def _noted(self) -> bool:
        """Whether what the vendor said last is on the disk: a process that dies before that takes it with it."""
        owner = self.engine.owners.read("table:orders")
        entries = self.engine.profile.journal.entries(owner.execution_id) if owner else []
        instants = [entry.next_attempt_at for entry in entries if entry.next_attempt_at]
        return max(instants, default=0) + self.vendor.behind >= self.vendor.closed_until

    def leave(self) -> None:
        """End the process in order, if one is at work."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    @contextmanager
    def _befalling(self, incident: Incident | None) -> Iterator[None]:
        self._passed = 0
        if incident is None:
            yield
            return
        profile = self.engine.profile
        places: list[tuple[Any, str]] = [(self.store.clock, "wait"), (self.vendor, "_answered")]
        places += [(profile.database, "run")]
        places += [(profile.objects, name) for name in ("create", "put", "put_all", "delete")]
        places += [(profile.journal, name) for name in JOURNAL]
        patches = [patch.object(at, name, self._around(getattr(at, name), incident)) for at, name in places]
        for each in patches:
            each.start()
        try:
            yield
        finally:
            for each in patches:
                each.stop()

    def _around(self, act: Callable[..., Any], incident: Incident) -> Callable[..., Any]:
        def acting(*arguments: Any, **options: Any) -> Any:
            if self._dead:
                raise Died
            self._passed += 1
            mine = self._passed == incident.point
            if mine and not incident.behind:
                self._befall(incident)
            result = act(*arguments, **options)
            if mine and incident.behind:
                self._befall(incident)
            return result

        return acting

    def _befall(self, incident: Incident) -> None:
        self.told.append(f"  {incident.kind} {incident.ms or ''} at point {incident.point}")
        if incident.kind == "crash":
            self._dead = True
            raise Died
        if incident.kind in {"stop", "mark"}:
            self.engine.stop("interrupted") if incident.kind == "stop" else self._mark()
        else:
            self.set_clock(incident.ms)

    def set_clock(self, ms: int) -> None:
        """Let `ms` pass, or set the clock back where they are negative: then the vendor's goes on by itself."""
        self.store.clock.advance(ms)
        self.vendor.behind -= min(ms, 0)

    def _mark(self) -> None:
        """Ask for a stop as another process does, and let the engine's poll come at once."""
        outside = self.store.profile()
        for run in self.engine.runs.since(0, ceiling=9):
            if run.status in {RunStatus.RUNNING, RunStatus.WAITING}:
                try:
                    stop(outside, run.run_id)
                except CancelTargetNotInFlight:
                    continue
        outside.close()
        self.engine.stopping._poll()
