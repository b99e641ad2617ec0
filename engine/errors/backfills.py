"""Why a backfill cannot be planned."""

from __future__ import annotations

from engine.errors.base import NamedError, named
from engine.errors.failures import Config


@named
class BackfillNeedsIncremental(NamedError, Config):
    """A backfill of tables without a clock: nothing tells which rows lie in a window."""

    tables: str
    says = "{tables} declares no incremental column, and a backfill cuts windows of one"
    remedy = "declare incremental, or name another table with --table"


@named
class BackfillWindowUnusable(NamedError, Config):
    """What `--from`, `--to` or `--every` says is no window of the table's clock."""

    table: str
    option: str
    found: str
    expected: str
    says = "{option} {found!r} cannot bound a backfill of {table}; expected {expected}"
    remedy = "bounds and steps are of the incremental column: instants or dates with a duration, numbers with a number"


@named
class BackfillStepsExceeded(NamedError, Config):
    """A plan of more chunks than may be taken, by the target profile's ceiling of steps or in all."""

    table: str
    chunks: int
    limit: int
    says = "the backfill of {table} comes to {chunks} chunks or more, and {limit} steps are allowed"
    remedy = "choose a larger --every, or backfill it in parts"
