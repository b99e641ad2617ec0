"""Why a scope cannot be held, resumed or retired."""

from __future__ import annotations

import json
from typing import Any

from engine.errors.base import NOT_NOW, NamedError, named
from engine.errors.failures import Permanent, Transient


@named
class ExecutionLive(NamedError, Transient):
    """A live attempt holds the scope (run.own.live-owner)."""

    exit_code = NOT_NOW
    scope: str
    attempt: str
    lease_until: int
    says = "{scope} is held by attempt {attempt}, whose lease runs until {lease_until}"
    remedy = "wait for it, for instance with --wait 60s"


@named
class ExecutionSuperseded(NamedError, Transient):
    """This attempt is no longer its owner's active one (run.journal.current-owner)."""

    scope: str
    attempt: str
    says = "attempt {attempt} no longer holds {scope}: it has ended, or another attempt took it over"
    remedy = "contextful status shows who holds it"


@named
class ExecutionClosed(NamedError, Permanent):
    """A handle was asked for something after it was closed."""

    scope: str
    attempt: str
    says = "this handle on {scope} is closed: its attempt {attempt} has ended"
    remedy = "open the scope again: what is pending is resumed, and after success all starts afresh"


@named
class ExecutionFinished(NamedError, Permanent):
    """A step of a finished once-only execution was never recorded."""

    scope: str
    step: str
    says = "{scope} is finished and recorded no step {step}"
    remedy = "open the scope without once=True to start over"


@named
class ExecutionPinMismatch(NamedError, Permanent):
    """A pin moved while the owner is pending (run.own.pinned-plan-changed, run.own.pin-mismatch-recovery)."""

    scope: str
    execution_id: str
    pinned: str
    asked: str
    differs: str = ""
    says = (
        "{scope} has the pending execution {execution_id} under pins {pinned}, and this run asks for {asked}; "
        "they differ in {differs}"
    )
    remedy = (
        "restore the recorded build and resume it to completion, or give its recorded work up: "
        "contextful run rewind {execution_id} --reason TEXT"
    )

    def __post_init__(self) -> None:
        pinned, asked = _pins(json.loads(self.pinned)), _pins(json.loads(self.asked))
        names = [name for name in sorted({*pinned, *asked}) if pinned.get(name) != asked.get(name)]
        self.differs = ", ".join(names)
        super().__post_init__()
        if window := _rewind_of_window(self.scope):
            self.remedy = (
                f"restore the recorded build and resume it to completion, or give its recorded work up: {window}"
            )


@named
class ExecutionRewindNotPending(NamedError, Permanent):
    """No pending host or table owner holds that execution (run.own.rewind-not-pending)."""

    execution_id: str
    scope: str | None = None
    says = "no pending table or host owner holds execution {execution_id}"
    remedy = "contextful status lists what is pending"

    def __post_init__(self) -> None:
        super().__post_init__()
        if window := _rewind_of_window(self.scope or ""):
            self.remedy = f"it is a chunk's, which is retired with its window: {window}"


@named
class ExecutionRewindPlanCurrent(NamedError, Permanent):
    """Nothing asked for another plan than the pending one (run.own.rewind-plan-current)."""

    execution_id: str
    plan_ref: str
    says = "execution {execution_id} is pending under the plan every attempt asked for ({plan_ref})"
    remedy = "its next fire resumes it; to give its recorded work up all the same, add --force"


@named
class ExecutionRewindUnsafe(NamedError, Transient):
    """Something of the execution is still alive (run.own.rewind-unsafe); `--force` does not change that."""

    exit_code = NOT_NOW
    execution_id: str
    alive: str
    says = "execution {execution_id} cannot be retired: {alive}"
    remedy = "wait for it or stop it, then rewind again"


@named
class ExecutionPending(NamedError, Permanent):
    """A verb that moves a scope's position or rows met an execution that is not finished."""

    scope: str
    execution_id: str
    state: str
    says = "{scope} has the unfinished execution {execution_id} ({state})"
    remedy = (
        "finish it with contextful pipeline run, or give its recorded work up: "
        "contextful run rewind {execution_id} --reason TEXT --force"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if window := _rewind_of_window(self.scope):
            self.remedy = (
                f"finish it with its contextful pipeline backfill, or give its recorded work up: {window} --force"
            )


@named
class AdmittedOwnerMutation(NamedError, Permanent):
    """A guarded callback tried to move the owner or lease that admits it (run.journal.guard-callback)."""

    scope: str
    says = "the running callback is admitted by {scope} and cannot move it"
    remedy = "do that after the callback has returned"


def _rewind_of_window(scope: str) -> str | None:
    """The command that gives the work of a chunk's owner up; None of an owner of another kind."""
    kind, _, rest = scope.partition(":")
    table, _, window = rest.partition(":")
    start, _, end = window.partition("..")
    if kind != "chunk":
        return None
    return f"contextful pipeline backfill ID --table {table} --from {start} --to {end} --rewind --reason TEXT"


def _pins(value: Any, *, path: str = "") -> dict[str, Any]:
    """Pins by the names of their leaves: `identities.pepper`."""
    if not isinstance(value, dict):
        return {path: value}
    inner = (_pins(each, path=f"{path}.{name}" if path else name) for name, each in value.items())
    return {leaf: each for pins in inner for leaf, each in pins.items()}
