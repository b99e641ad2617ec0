"""The retry decision: a pure function of the attempt that ended and the failure it ended with.

One layer retries, the step's schedule (run.retry.one-layer): sources, meters and transports return their failures to
it. The runner owns the sleep and the counter; this module owns the arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import ContextfulError, RateLimited, StepFailed
from engine.schedule import RETRYABLE, Schedule


@dataclass(frozen=True, slots=True)
class Again:
    """Try again after `delay_ms`."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class Stands:
    """The failure is the step's answer."""


Decision = Again | Stands


def decide(schedule: Schedule, *, attempt: int, failure: ContextfulError, jitter_ms: int) -> Decision:
    """Say what follows the failed one-based `attempt` (run.retry.decision-is-pure).

    `jitter_ms` is the caller's seeded draw below the schedule's ceiling. A wait the other side asked for supersedes
    the computed delay. A step inside the step has spent its own schedule: its answer stands (run.retry.one-layer).
    """
    if isinstance(failure, StepFailed):
        return Stands()
    if failure.tag not in schedule.retry_on or failure.tag not in RETRYABLE or attempt >= schedule.attempts:
        return Stands()
    if isinstance(failure, RateLimited) and failure.wait_ms is not None:
        return Again(failure.wait_ms)
    return Again(computed_delay(schedule, attempt=attempt) + jitter_ms)


def computed_delay(schedule: Schedule, *, attempt: int) -> int:
    """Milliseconds after the one-based `attempt`, before jitter, clamped (run.retry.schedule)."""
    if schedule.backoff == "fixed":
        return min(schedule.base_ms, schedule.max_delay_ms)
    # The exponent is bounded first: a float overflows long before a patient schedule runs out of attempts.
    return int(min(schedule.base_ms * schedule.factor ** min(attempt - 1, 64), schedule.max_delay_ms))
