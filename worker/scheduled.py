"""What cron does: starts the command declared for its expression, and wakes the engine for what is due. Pure."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

DUE: Final = """
SELECT scope FROM owners WHERE wake_at <= CAST(?1 AS INTEGER) AND finished_at IS NULL ORDER BY wake_at, scope LIMIT 100
"""

ENGINE: Final = "engine"
"""The name of the container that goes on with what waited."""

SERVED: Final = ("serve", "--")
"""How every engine starts: as a child of the process that records its exit once nothing of it is left."""

COMMAND: Final = (*SERVED, "run", "resume-due")
"""What goes on with what waited."""

COMMANDS: Final = "COMMANDS"
"""The Worker's variable that says what each cron starts: JSON, a contextful command by cron expression."""

_NOT_OF_A_NAME: Final = re.compile(r"[^a-z0-9]+")


class CommandsUnusable(ValueError):
    """The variable `COMMANDS` is not what it should be."""


def declared(text: object, *, cron: str) -> tuple[str, list[str]] | None:
    """The engine's name and command line that `text`, the variable `COMMANDS`, declares for `cron`; None for none.

    The name follows from the command, so that a cron that comes while the engine still runs starts no second one.
    Raise `CommandsUnusable` saying what is wrong with the variable.
    """
    if not text:
        return None
    commands = _parsed(text)
    if cron not in commands:
        return None
    command = shlex.split(commands[cron])
    return _NOT_OF_A_NAME.sub("-", " ".join(command).lower()).strip("-"), [*SERVED, *command]


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


def _parsed(text: object) -> dict[str, str]:
    try:
        commands = json.loads(str(text))
    except ValueError as problem:
        msg = f"{COMMANDS} is no JSON ({problem})"
        raise CommandsUnusable(msg) from None
    if not isinstance(commands, dict) or not all(isinstance(each, str) and each.strip() for each in commands.values()):
        msg = (
            f"{COMMANDS} must be an object of commands by cron expression, "
            """such as {"0 * * * *": "pipeline run ID"}"""
        )
        raise CommandsUnusable(msg)
    return commands
