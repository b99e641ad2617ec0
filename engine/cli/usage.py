"""What `--help` shows: of a command what it takes, of a group what it has."""

from __future__ import annotations

import inspect
import shutil
import textwrap
from typing import TYPE_CHECKING, Final

from engine.cli.parsing import HELP, Argument, Option

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from engine.cli.parsing import Parameter

WIDEST: Final = 80
"""Columns of the widest help: longer lines are harder to read."""

_FARTHEST: Final = 30
"""The column behind which no description begins."""


def of_command(path: str, purpose: str, taken: Sequence[Parameter]) -> str:
    """The help of a command."""
    placed = [each for each in taken if isinstance(each.declared, Argument)]
    options = [each for each in taken if isinstance(each.declared, Option)]
    words = [each.shown if each.required else f"[{each.shown}]" for each in placed]
    return _joined(
        " ".join(("Usage:", path, "[OPTIONS]", *words)),
        _prose(purpose),
        _listed("Arguments", ((each.shown, each.declared.help) for each in placed)),
        _listed("Options", (*((_spelling(each), _told(each)) for each in options), _HELP)),
    )


def of_group(path: str, purpose: str, commands: Mapping[str, str]) -> str:
    """The help of a group, with what each of its commands is for."""
    return _joined(
        f"Usage: {path} [OPTIONS] COMMAND [ARGS]...",
        _prose(purpose),
        _listed("Options", (_HELP,)),
        _listed("Commands", commands.items()),
    )


_HELP: Final = (HELP, "Show this and exit.")


def _spelling(option: Parameter) -> str:
    choices = f"<{'|'.join(option.choices)}>" if option.choices else ""
    metavar = option.declared.metavar or choices
    return f"{option.shown} {metavar}" if metavar else option.shown


def _told(option: Parameter) -> str:
    declared = option.declared
    if not isinstance(declared, Option):
        return declared.help
    facts = [f"env var: {declared.envvar}"]
    if isinstance(option.default, str):
        facts.append(f"default: {option.default}")
    if declared.bounds:
        facts.append(declared.bounds)
    if option.required:
        facts.append("required")
    return f"{declared.help}  [{'; '.join(facts)}]"


def _prose(text: str) -> str:
    return "\n\n".join(_indented(" ".join(each.split()), at=2) for each in inspect.cleandoc(text).split("\n\n"))


def _listed(heading: str, entries: Iterable[tuple[str, str]]) -> str:
    known = list(entries)
    if not known:
        return ""
    column = min(max(len(name) for name, _ in known) + 4, _FARTHEST)
    return "\n".join((f"{heading}:", *(_entry(name, told, at=column) for name, told in known)))


def _entry(name: str, told: str, *, at: int) -> str:
    described = _indented(told, at=at)
    return f"  {name}{described[len(name) + 2 :]}" if len(name) + 4 <= at else f"  {name}\n{described}"


def _indented(text: str, *, at: int) -> str:
    columns = min(shutil.get_terminal_size().columns, WIDEST) - 2
    margin = " " * at
    return textwrap.fill(text, max(columns, at + 20), initial_indent=margin, subsequent_indent=margin)


def _joined(*parts: str) -> str:
    return "\n\n".join(filter(None, parts))
