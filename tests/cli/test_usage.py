"""The command line's own manners: help, variables, misuse."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from engine.cli.commands import ROOT, Group, function
from engine.cli.parsing import Option, parameters

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

GROUPS = {
    "pipeline": {"validate", "list", "preview", "run", "reset", "apply", "backfill"},
    "table": {"drop"},
    "run": {"list", "show", "export", "rewind", "stop", "resume-due"},
    "storage": {"initialize", "check", "sweep", "backup", "restore", "guard", "reconcile-guard"},
    "operator": {"key", "token"},
    "export": {"list", "run"},
    "catalog": {"rebuild"},
}
COMMANDS = [
    *(("init",), ("read",), ("status",), ("serve",), ("demo",)),
    *((g, c) for g in sorted(GROUPS) for c in sorted(GROUPS[g])),
]


def options(command: tuple[str, ...]) -> set[str]:
    """The options that one command declares."""
    found: Any = ROOT
    for name in command:
        found = found.members[name]
    return {each.declared.name for each in parameters(function(found)) if isinstance(each.declared, Option)}


def test_the_commands_are_those_of_the_surface_and_no_others() -> None:
    found = {name: set(group.members) for name, group in ROOT.members.items() if isinstance(group, Group)}

    assert set(ROOT.members) == {"init", "read", "status", "serve", "demo", *GROUPS}
    assert found == GROUPS


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_option_of_every_command_shows_its_variable(shell: Shell, command: tuple[str, ...]) -> None:
    ended = shell(*command, "--help")

    _, _, listed = " ".join(ended.out.split()).partition(" options: ")
    entries = [entry for entry in re.split(r" (?=--[a-z])", f" {listed}") if entry.startswith("--")]
    shown = {entry.split()[0] for entry in entries if re.search(r"env var: CONTEXTFUL_[A-Z_]+", entry)}
    assert {"--manifest", "--json"} <= shown
    assert options(command) == shown


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["run", "nonsense"], ["run", "list", "--nonsense"], ["run", "show"], ["read", "--limit", "0"],
     ["serve", "--every", "0s"]],
)  # fmt: skip
def test_misuse_exits_2_in_the_manner_of_every_refusal(shell: Shell, arguments: list[str]) -> None:
    plain, told = shell(*arguments), shell(*arguments, "--json")

    assert plain.code == told.code == 2
    assert plain.err.startswith("UsageError: ")
    assert "--help shows what there is" in plain.err
    assert plain.out == ""
    assert told.error["name"] == "UsageError"


def test_a_group_without_a_command_shows_its_help(shell: Shell) -> None:
    ended = shell("pipeline")

    assert ended.code == 2
    assert "commands:" in ended.err
    assert ended.out == ""


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in {("init",), ("demo",)}], ids=" ".join)
def test_in_an_empty_folder_every_command_says_how_to_begin(shell: Shell, command: tuple[str, ...]) -> None:
    needs = {"run show": ["r"], "run rewind": ["x", "--reason", "y"], "table drop": ["t"], "pipeline run": ["p"],
             "storage backup": ["d"], "storage restore": ["d"], "run stop": ["r"],
             "storage reconcile-guard": ["--token", "g", "--evidence", "e", "--operator", "o"],
             "export run": ["e"], "pipeline preview": ["p"], "pipeline reset": ["p"],
             "pipeline backfill": ["p", "--from", "1", "--to", "2", "--every", "1"]}  # fmt: skip

    ended = shell(*command, *needs.get(" ".join(command), []), "--json")

    assert ended.code == 2
    assert ended.error["name"] == "ManifestInvalid"
    assert "contextful init" in ended.err
    assert list(shell.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("word", "meant"), [("backfill", "pipeline backfill"), ("reconcile-guard", "storage reconcile-guard")]
)
def test_a_command_without_its_group_is_answered_with_where_it_is(shell: Shell, word: str, meant: str) -> None:
    refused = shell(word)

    assert refused.code == 2
    assert f"contextful has no command '{word}' (did you mean contextful {meant}?)" in refused.err
