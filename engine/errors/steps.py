"""How a step, a join or a wait fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.errors.base import NOT_NOW, ContextfulError, NamedError, named
from engine.errors.failures import Permanent, RateLimited

if TYPE_CHECKING:
    from engine.shapes import FailureTag


@named
class StepFailed(NamedError):
    """A step's answer is a failure: not retryable, or its schedule is spent (run.retry.step-failed)."""

    step: str
    failure: ContextfulError
    attempts: int
    says = "step {step} failed after {attempts} attempt(s): {failure}"

    @property
    def facts(self) -> dict[str, Any]:
        """The step, the attempts and the underlying tag."""
        return {
            "step": self.step,
            "attempts": self.attempts,
            "underlying": str(self.failure.tag),
            "failure": self.failure,
        }

    @property
    def tag(self) -> FailureTag:  # type: ignore[override]
        """The tag of the failure underneath."""
        return self.failure.tag

    @property
    def first(self) -> str | None:
        """What the failure underneath asks for first."""
        return self.failure.first


@named
class StepLabelUnusable(NamedError, Permanent):
    """A step is named by what no journal can key on."""

    found: str
    says = "a step has the label {found}, which is no Unicode text"
    remedy = "name the step by what it does"


@named
class Waiting(NamedError, RateLimited):
    """A step's next try is too far off to sleep through: the attempt closes and goes on then (run.retry.waiting-state).

    It is no failure of the work: let it end the `with` block of its execution, and open the scope again at `due_at`.
    """

    exit_code = NOT_NOW
    step: str
    due_at: int
    says = "step {step} waits until {due_at}"
    remedy = "what is recorded stays: run it again then, for instance with contextful run resume-due"


@named
class ValueUnsupported(NamedError, Permanent):
    """An effect returned what no journal can hold."""

    step: str
    found: str
    says = "step {step} returned {found}; a recorded value is JSON or bytes"
    remedy = "return JSON values (finite numbers, text, lists, mappings with text keys) or bytes"


@named
class JoinFailed(NamedError, Permanent):
    """A branch failed before its join (run.journal.fan-out-join)."""

    join: str
    branch: str
    failure: str
    says = "branch {branch} of join {join} failed: {failure}"


@named
class AwakeableUnknown(NamedError, Permanent):
    """No row for the token (run.suspend.unknown-token)."""

    token: str
    says = "no awakeable has the token {token}"


@named
class AwakeableAlreadyResolved(NamedError, Permanent):
    """A second resolution with another payload (run.suspend.conflicting-resolution)."""

    token: str
    says = "the awakeable {token} is resolved with another payload, which stands"


@named
class AwakeableTimedOut(NamedError, Permanent):
    """The deadline passed first (run.suspend.expired-token)."""

    token: str
    deadline_at: int
    says = "the awakeable {token} timed out at {deadline_at}"
