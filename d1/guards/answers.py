"""Errors as the operator routes answer them: the JSON of the command line, and a fitting status. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
    described,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.errors import ContextfulError

STATUSES: Final[Mapping[type[ContextfulError], int]] = {
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


def status_of(error: ContextfulError) -> int:
    """The HTTP status of an error; a credential that is good elsewhere is forbidden here."""
    if isinstance(error, OperatorCredentialRefused) and error.reason == "wrong-project":
        return 403
    return STATUSES[type(error)]


def told(error: ContextfulError, **beside: Any) -> dict[str, Any]:
    """The document of an error, with what else is to be known."""
    return {"error": described(error), **beside}
