"""Every command by its name, and the function behind it, loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PURPOSE: Final = "Data pipelines that survive crashes, lost answers and replaced machines."

COMMANDS: Final = {
    "init": "init:init",
    "read": "read:read",
    "status": "status:status",
    "serve": "serve:serve",
    "demo": "demo:demo",
}
"""The commands of no group: module and function."""

GROUPS: Final = {
    "pipeline": (
        "Check, try and run the pipelines of the manifest.",
        {
            "validate": "pipeline:validate",
            "list": "pipeline:show",
            "preview": "preview:preview",
            "run": "pipeline_run:run",
            "backfill": "backfill:backfill",
            "reset": "reset:reset",
            "apply": "apply:apply",
        },
    ),
    "table": ("The tables of the corpus.", {"drop": "reset:drop"}),
    "run": (
        "The history of runs, and the end of those that are stuck.",
        {
            "list": "run_history:show",
            "show": "run_history:one",
            "export": "run_history:export",
            "rewind": "rewind:rewind",
            "resume-due": "resume_due:resume_due",
            "stop": "stop:stop",
        },
    ),
    "storage": (
        "The store: state and corpus.",
        {
            "initialize": "storage:initialize",
            "check": "storage:check",
            "sweep": "storage:sweep",
            "backup": "storage:backup",
            "restore": "storage:restore",
        },
    ),
    "catalog": ("The catalog, a cache of what the corpus holds.", {"rebuild": "storage:rebuild"}),
}
"""Purpose and commands of each group."""


def application(first: str | None = None) -> typer.Typer:
    """The command line, or as much of it as a command line that begins with the word `first` can ask for."""
    asked = first if first in COMMANDS or first in GROUPS else None
    app = _group(PURPOSE, {name: place for name, place in COMMANDS.items() if asked in {None, name}})
    for name, (purpose, commands) in GROUPS.items():
        if asked in {None, name}:
            app.add_typer(_group(purpose, commands), name=name)
    return app


def _group(purpose: str, commands: Mapping[str, str]) -> typer.Typer:
    group = typer.Typer(
        help=purpose,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    group.callback()(_alone)
    for name, place in commands.items():
        group.command(name)(_function(place))
    return group


def _function(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(import_module(f"engine.cli.{module}"), name)
    return function


def _alone() -> None:
    """Keep a group of one command a group: Typer would fold it into its command."""
