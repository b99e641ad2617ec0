"""Errors as the operator routes answer them: the JSON of the command line, and a fitting status. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.errors import OperatorCredentialRefused, described
from engine.operator.named import STATUSES

if TYPE_CHECKING:
    from engine.errors import ContextfulError, NamedError


def status_of(error: NamedError) -> int:
    """The HTTP status of an error; a credential that is good elsewhere is forbidden here."""
    if isinstance(error, OperatorCredentialRefused) and error.reason == "wrong-project":
        return 403
    return STATUSES[type(error)]


def told(error: ContextfulError, **beside: Any) -> dict[str, Any]:
    """The document of an error, with what else is to be known."""
    return {"error": described(error), **beside}
