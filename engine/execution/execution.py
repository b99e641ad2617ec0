"""An execution under a host scope: what `eng.open` gives to a program that journals its own steps."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from engine.errors import (
    AwakeableTimedOut,
    Canceled,
    ContextfulError,
    DestinationUnknown,
    EngineClosed,
    ExecutionClosed,
    ExecutionSuperseded,
    ExecutionTransferBlocked,
    JoinFailed,
    StepFailed,
    StepLabelUnusable,
    StorageFailure,
    Waiting,
)
from engine.execution import values
from engine.execution.branch import Branch
from engine.execution.duration import milliseconds
from engine.execution.failures import failure_of
from engine.execution.unrecorded import Unrecorded
from engine.schedule import Schedule
from engine.shapes import Awakeable, EntryKey, RunStatus, is_utf8

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from engine.execution.call import Call
    from engine.execution.held import Held, Room
    from engine.execution.steps import Outcome
    from engine.pipeline.declaration import Destination
    from engine.ports import Awakeables
    from engine.runs import RunRow
    from engine.secrets import SecretGuard

DEFAULT_SCHEDULE: Final = Schedule()

WAIT_POLL_MS: Final = 200
"""How often a wait looks whether it is resolved."""


class Execution:
    """A resumable execution: steps whose values are recorded once and replayed ever after.

    Used in a `with` block: leaving it normally ends the execution with success and a later open of the scope starts
    afresh; an exception closes the attempt and leaves the recorded steps to the next open.
    """

    def __init__(
        self,
        room: Room,
        held: Held,
        *,
        awakeables: Awakeables,
        guard: SecretGuard,
        destinations: Mapping[str, Destination],
        once: bool,
    ) -> None:
        self._room = room
        self._held = held
        self._awakeables = awakeables
        self._guard = guard
        self._destinations = destinations
        self._once = once
        self._recorded = False
        self._masked: list[int] = []
        self._failed_branches: list[dict[str, str]] = []
        self.closed = False

    @property
    def execution_id(self) -> str:
        """What the recorded work is keyed on (run.own.execution-id-keys-the-journal)."""
        return self._held.attempt.execution_id

    @property
    def run_id(self) -> str:
        """This attempt."""
        return self._held.attempt.run_id

    @property
    def resumed(self) -> bool:
        """Whether earlier attempts of the execution may have recorded steps."""
        return self._held.resumed

    def step(
        self,
        label: str,
        effect: Callable[[Call], Any],
        *,
        input: Any = None,  # noqa: A002 - the word the contract and its users have for it
        schedule: Schedule | None = None,
        destination: str | None = None,
    ) -> Any:
        """Return the value recorded under (`label`, `input`), or what `effect` returns once that is recorded.

        `effect` takes a `Call` and returns JSON or bytes; known secrets in what it returns are masked before recording,
        and the recorded value is what this returns, the first time as on every replay. A failure it raises is retried
        by `schedule` where its tag allows. Raise `StepFailed` when the failure stands, `ValueUnsupported` for a value
        or input that is neither JSON nor bytes, `DestinationUnknown` and `StepLabelUnusable` before anything is done.
        """
        self._require_open()
        if not is_utf8(label):
            raise StepLabelUnusable(found=ascii(label[:60]))
        key = EntryKey(self.execution_id, label, values.input_hash(input, step=label))
        declared = self._declared(destination, step=label) if destination else None
        outcome = self._outcome(key, partial(self._perform, label, effect), declared, schedule or DEFAULT_SCHEDULE)
        # A flag and not a count: branches of a join set it at the same instant.
        self._recorded = self._recorded or not outcome.replayed
        assert outcome.value is not None, "a host step always records"
        if not outcome.replayed:
            # Asked to stop while the effect was at work: it is recorded, and nothing follows it.
            self._held.cancellation.check()
        return values.decode(outcome.value)

    @property
    def journal(self) -> Unrecorded:
        """The way past the journal: `x.journal.unsafe(…)` (run.journal.escape-hatch)."""
        self._require_open()
        return Unrecorded(self._held)

    def join(self, label: str, branches: Mapping[str, Callable[[Branch], Any]], *, allow_partial: bool = False) -> Any:
        """Run `branches` in parallel and return their values in order, once all have ended (run.journal.fan-out-join).

        A branch's steps carry labels scoped to it. A failed branch fails the run; with `allow_partial` its value is
        None and its label and failure tag are on the run record. Raise the earliest `Waiting` of the branches when no
        failure comes before it.
        """
        self._require_open()
        with ThreadPoolExecutor(max_workers=max(len(branches), 1), thread_name_prefix=label) as pool:
            # In a context of its own each: what the caller is inside of, its branches are inside of too.
            running = {
                name: pool.submit(copy_context().run, branch, Branch(self, f"{label}/{name}"))
                for name, branch in branches.items()
            }
        failures = {name: failure for name, future in running.items() if (failure := future.exception())}
        waits = [failure for failure in failures.values() if isinstance(failure, Waiting)]
        # An instant is recorded too, and is kept though another branch fails the run (run.retry.resume-at).
        self._recorded = self._recorded or bool(waits)
        for name, failure in failures.items():
            if isinstance(failure, Waiting):
                continue
            if isinstance(failure, Canceled) or not isinstance(failure, Exception):
                raise failure
            if not allow_partial:
                raise JoinFailed(join=label, branch=name, failure=str(failure)) from failure
            self._failed_branches.append({"label": f"{label}/{name}", "tag": str(failure_of(failure).tag)})
        if waits:
            raise min(waits, key=lambda wait: wait.due_at)
        return tuple(None if name in failures else future.result() for name, future in running.items())

    def wait(self, label: str, *, ttl: str = "", ttl_ms: int = 0, announce: Callable[[str], None] | None = None) -> Any:
        """Suspend until an outside party resolves the awakeable of this label, and return its payload.

        `announce` is told the token each time the wait begins. Raise `AwakeableTimedOut` past the deadline, which is
        `ttl`, such as "2h", or `ttl_ms` after the wait was first reached (run.suspend.deadline), `DurationSpelling`
        for another spelling or none.
        """
        awakeable = self._minted(label, ttl_ms=ttl_ms or milliseconds(ttl, place=f"the ttl of {label}"))
        entry = self._room.journal.find(awakeable.entry_key)
        if announce and entry is None:
            announce(awakeable.token)
        while entry is None or not entry.recorded:
            now = self._room.clock.now()
            if self._awakeables.time_out(awakeable.token, at=now):
                raise AwakeableTimedOut(token=awakeable.token, deadline_at=awakeable.deadline)
            self._held.cancellation.wait(self._room.clock, min(WAIT_POLL_MS, awakeable.deadline - now))
            entry = self._room.journal.find(awakeable.entry_key)
        return values.decode(self._room.journal.value(entry))

    def close(self, *, failure: ContextfulError | None = None) -> None:
        """End the attempt: with success, or with `failure`, which leaves recorded steps to the next open.

        Once is enough. Behind the close of its engine nothing can be ended any more: the execution stays pending, and
        `EngineClosed` says so where no failure does.
        """
        if self.closed:
            return
        if self._room.leases.leaving and failure is not None:
            self.closed = True
            return
        self._require_open()
        self._room.callbacks.check_free(self._held.attempt.scope)
        self.closed = True
        if isinstance(failure, Waiting):
            self._held.park(self._counted(self._held.waiting(failure)))
            return
        if failure is None:
            self._succeed()
            return
        status = RunStatus.CANCELED if isinstance(failure, Canceled) else RunStatus.FAILED
        row = self._counted(self._held.ended(status, failure=failure))
        if self._recorded or self._held.resumed or isinstance(failure, ExecutionSuperseded):
            self._held.release(row)
        else:
            # Nothing is recorded, so nothing needs this execution (run.own.pin-release).
            self._held.retire(row)

    def __enter__(self) -> Self:
        """Use the execution in a `with` block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, at: TracebackType | None
    ) -> None:
        """End with success, or with the failure the block raised."""
        if raised is None:
            self.close()
        elif isinstance(raised, Exception):
            self.close(failure=failure_of(raised))
        else:
            self.close(failure=Canceled("interrupted"))

    def _require_open(self) -> None:
        if self._room.leases.leaving:
            raise EngineClosed
        if self.closed:
            raise ExecutionClosed(scope=self._held.attempt.scope, attempt=self.run_id)

    def _succeed(self) -> None:
        """End the execution, or, where a guard of it stands, only the attempt (rule G8 of the guard protocol)."""
        row = self._counted(self._held.ended(RunStatus.SUCCESS))
        try:
            self._held.finish(row) if self._once else self._held.retire(row)
        except ExecutionTransferBlocked as blocked:
            self._held.release(self._counted(self._held.ended(RunStatus.FAILED, failure=blocked)))
            raise

    def _outcome(
        self, key: EntryKey, effect: Callable[[Call], bytes], declared: Destination | None, schedule: Schedule
    ) -> Outcome:
        """Run the step on its course; where its effect may have acted unheard, execution and key are kept."""
        course = self._held.effects(declared) if declared else None
        try:
            with self._held.outbound.within():
                return self._held.steps.run(
                    key, effect, schedule=schedule, course=course, likely_recorded=self._held.resumed
                )
        except (StepFailed, StorageFailure) as raised:
            failure = raised.failure if isinstance(raised, StepFailed) else raised
            self._recorded = self._recorded or isinstance(failure, StorageFailure)
            raise
        finally:
            unheard = self._held.outbound.in_doubt or (course is not None and course.in_doubt)
            self._recorded = self._recorded or unheard

    def _declared(self, destination: str, *, step: str) -> Destination:
        try:
            return self._destinations[destination]
        except KeyError:
            known = ", ".join(sorted(self._destinations)) or "none"
            raise DestinationUnknown(destination=destination, step=step, known=known) from None

    def _perform(self, label: str, effect: Callable[[Call], Any], call: Call) -> bytes:
        value = effect(call)
        text = values.plain(value)
        if text is not None and self._guard.clears(text):
            # Most values hold nothing to mask, which their text tells some twenty times faster than their parts.
            return text
        value, count = self._guard.bytes(value) if isinstance(value, bytes) else self._guard.value(value)
        self._masked.append(count)
        return values.encode(value, step=label)

    def _minted(self, label: str, *, ttl_ms: int) -> Awakeable:
        def draw(_: Call) -> dict[str, Any]:
            now = self._room.clock.now()
            return {"token": self._room.chance.token(), "created_at": now, "deadline": now + ttl_ms}

        drawn = self.step(f"{label}:awakeable", draw)
        awakeable = Awakeable(execution_id=self.execution_id, step=label, **drawn)
        self._awakeables.mint(awakeable)
        return awakeable

    def _counted(self, row: RunRow) -> RunRow:
        # What was masked before a wait was masked in this run: its replay does not mask it again.
        masked = self._held.run.masked + sum(self._masked)
        return replace(row, masked=masked, failed_branches=tuple(self._failed_branches))
