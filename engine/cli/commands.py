"""Every command by its name, and the function behind it, loaded when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from engine.cli import output
from engine.cli.parsing import HELP, Misuse, near, parser, values
from engine.errors import Config, NamedError, named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@named
class UsageError(NamedError, Config):
    """A command line that cannot be understood, as the user is told."""

    says = "{problem}"
    remedy = "{command} --help shows what there is"

    command: str
    problem: str


@dataclass(frozen=True, slots=True)
class Group:
    """Commands under one name: each is a group again, or the module and function that do it."""

    purpose: str
    members: Mapping[str, Group | str]


ROOT: Final = Group(
    "Data pipelines that survive crashes, lost answers and replaced machines.",
    {
        "init": "init:init",
        "read": "read:read",
        "status": "status:status",
        "demo": "demo:demo",
        "serve": "serve:serve",
        "pipeline": Group(
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
        "table": Group("The tables of the corpus.", {"drop": "reset:drop"}),
        "run": Group(
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
        "storage": Group(
            "The store: state and corpus.",
            {
                "initialize": "storage:initialize",
                "check": "storage:check",
                "sweep": "storage:sweep",
                "backup": "storage:backup",
                "restore": "storage:restore",
                "guard": "guards:show",
                "reconcile-guard": "guards:reconcile",
            },
        ),
        "export": Group(
            "Publications: rows of the corpus on their way to destinations.",
            {"list": "export:show", "run": "export:run"},
        ),
        "operator": Group(
            "Credentials for asking a project's Worker from a laptop.",
            {"key": "operator:key", "token": "operator:token"},
        ),
        "catalog": Group("The catalog, a cache of what the corpus holds.", {"rebuild": "storage:rebuild"}),
    },
)
"""The command line."""


def run(words: Sequence[str], environ: Mapping[str, str], *, group: Group = ROOT, path: str = "contextful") -> int:
    """Run the command of `group` that `words` begin with on the rest of them; return its exit code.

    Raise `UsageError` for words that are none, beside whatever the command raises.
    """
    word = next(iter(words), None)
    if word == HELP:
        output.text(_help(group, path=path))
        return 0
    if word is None:
        output.say(_help(group, path=path))
        raise UsageError(command=path, problem=f"{path} needs a command")
    member = group.members.get(word)
    if member is None:
        sort = "option" if word.startswith("-") else "command"
        meant = near(word, group.members) or _elsewhere(word, group, path=path)
        raise UsageError(command=path, problem=f"{path} has no {sort} {word!r}{meant}")
    path = f"{path} {word}"
    if isinstance(member, Group):
        return run(words[1:], environ, group=member, path=path)
    return _called(function(member), words[1:], environ, path=path)


def function(place: str) -> Callable[..., int | None]:
    """The function of a command, by its module and name."""
    module, _, name = place.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"engine.cli.{module}"), name)
    return found


def _elsewhere(word: str, group: Group, *, path: str) -> str:
    """The first command of that name in a group below `group`, as a guess; nothing where there is none."""
    below = (name for name, member in group.members.items() if isinstance(member, Group) and word in member.members)
    return next((f" (did you mean {path} {name} {word}?)" for name in below), "")


def _called(called: Callable[..., int | None], words: Sequence[str], environ: Mapping[str, str], *, path: str) -> int:
    try:
        given = values(called, words, environ, path=path)
        return 0 if given is None else called(**given) or 0
    except Misuse as misuse:
        raise UsageError(command=path, problem=str(misuse)) from None


def _help(group: Group, *, path: str) -> str:
    told = parser(path, group.purpose)
    commands = told.add_subparsers(title="commands", metavar="COMMAND")
    for name, member in group.members.items():
        commands.add_parser(name, help=_purpose(member), add_help=False)
    return told.format_help().rstrip()


def _purpose(member: Group | str) -> str:
    """What a command is for, in a line."""
    told = member.purpose if isinstance(member, Group) else function(member).__doc__ or ""
    return " ".join(told.partition("\n\n")[0].split())
