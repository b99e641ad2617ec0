"""Why a run cannot be stopped."""

from __future__ import annotations

from engine.errors.base import NamedError, named
from engine.errors.failures import Permanent


@named
class CancelTargetNotInFlight(NamedError, Permanent):
    """A stop names a run that is not pending, running or waiting (run.cancel.not-in-flight)."""

    run_id: str
    status: str
    says = "run {run_id} is not in flight: it is {status}"
    remedy = "contextful status shows what is in flight"
