"""Failures of work: a source or an effect raises one, and its tag decides whether a schedule tries again."""

from __future__ import annotations

from engine.errors.base import BAD_USAGE, CANCELED, ContextfulError
from engine.shapes import FailureTag


class Transient(ContextfulError):
    """May succeed if tried again as it is."""

    tag = FailureTag.TRANSIENT


class RateLimited(ContextfulError):
    """The other side asks to wait, `wait_ms` where it said for how long."""

    tag = FailureTag.RATE_LIMITED

    def __init__(self, message: str, *, wait_ms: int | None = None, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.wait_ms = wait_ms


class Permanent(ContextfulError):
    """Fails the same way however often it is tried."""


class SchemaIncompatible(ContextfulError):
    """Data and declared or committed types do not go together."""

    tag = FailureTag.SCHEMA_INCOMPATIBLE


class AuthExpired(ContextfulError):
    """The other side refused the credential."""

    tag = FailureTag.AUTH_EXPIRED


class Config(ContextfulError):
    """The declaration or the environment is wrong."""

    tag = FailureTag.CONFIG
    exit_code = BAD_USAGE


class StorageFailure(ContextfulError):
    """A store could not do its part: disk, database or binding."""

    tag = FailureTag.STORAGE


class UnknownConnector(ContextfulError):
    """No source of that kind or entry."""

    tag = FailureTag.UNKNOWN_CONNECTOR
    exit_code = BAD_USAGE


class Canceled(ContextfulError):
    """Stopped on request (run.cancel.abandoned-work)."""

    tag = FailureTag.CANCELED
    exit_code = CANCELED
