"""The errors that a project's Worker names, one table for both ends: who answers by them and who reads them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from engine.errors import (
    ExecutionGuardEvidenceMismatch,
    ExecutionGuardHeld,
    ExecutionGuardUnknown,
    ExecutionSchemaIncompatible,
    GuardStepRecorded,
    GuardValueUnsealed,
    OperatorCredentialRefused,
    OperatorEndpointUnreachable,
    OperatorProjectElsewhere,
    OperatorRequestUnusable,
    StorageBindingUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.errors import NamedError

STATUSES: Final[Mapping[type[NamedError], int]] = {
    OperatorRequestUnusable: 400,
    OperatorCredentialRefused: 401,
    ExecutionGuardUnknown: 404,
    ExecutionGuardHeld: 409,
    GuardStepRecorded: 409,
    OperatorProjectElsewhere: 409,
    ExecutionSchemaIncompatible: 409,
    ExecutionGuardEvidenceMismatch: 422,
    GuardValueUnsealed: 422,
    OperatorEndpointUnreachable: 503,
    StorageBindingUnavailable: 503,
}
"""Every such error with the HTTP status that it is answered with."""

KNOWN: Final[Mapping[str, type[NamedError]]] = {
    each.__name__: each for each in STATUSES if each is not StorageBindingUnavailable
}
"""Those that are raised at home as they were raised there, by their name.

A Worker that does not reach D1 is for its operator an endpoint that does not answer: no binding is his.
"""
