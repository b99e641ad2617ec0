"""What cron does: finds out whether an owner's instant has come, and wakes the engine for it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

DUE: Final = """
SELECT scope FROM owners WHERE wake_at <= CAST(?1 AS INTEGER) AND finished_at IS NULL ORDER BY wake_at, scope LIMIT 100
"""

ENGINE: Final = "engine"
"""The name of the container that goes on with what waited."""

COMMAND: Final = ("serve", "--", "run", "resume-due")
"""What it starts: the engine as a child of the process that records its exit once nothing of it is left."""


async def wake_due(
    *, now: int, due: Callable[[str, int], Awaitable[list[str]]], wake: Callable[[str, list[str]], Awaitable[bool]]
) -> list[str]:
    """Wake the engine when `due` finds scopes whose instant is not after `now`; return them.

    One engine goes on with all of them; waking one that runs changes nothing, so that a cron that comes twice is
    harmless.
    """
    scopes = await due(DUE, now)
    if scopes:
        await wake(ENGINE, list(COMMAND))
    return scopes
