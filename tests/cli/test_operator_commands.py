"""`contextful operator`: keys and tokens, and what a machine needs to ask where it does not open the store."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from engine.clock import SystemClock
from engine.operator.claims import EDDSA, presented, token_subject

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Shell


def test_a_project_that_nothing_leads_to_is_named_with_what_there_is(laptop: Shell) -> None:
    settings = laptop.folder / "settings" / "contextful"
    settings.mkdir(parents=True)
    (settings / "projects.toml").write_text('[project.bakery]\nendpoint = "https://bakery.example.com"\n', "utf-8")

    refused = laptop("storage", "guard", "--project", "mill", "--json")

    assert (refused.code, refused.error["name"]) == (2, "OperatorProjectUnknown")
    for told in ("'shop'", "bakery", "CONTEXTFUL_OPERATOR_ENDPOINT", "[project.mill]"):
        assert told in refused.err


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ('[project.mill]\nendpoint = "http://mill.example.com"\n', "must be https"),
        ('[project.mill]\nendpoint = "mill.example.com"\n', "is no address"),
        ('[project.mill]\nendpoint = "https://[mill"\n', "is no address"),
        ('[project.mill]\nendpoint = "https://mill.example.com:99999"\n', "is no address"),
        ('[project.mill]\nendpoint = "https://a:b@mill.example.com"\n', "holds no credential"),
        ('[project.mill]\nendpoint = "https://mill.example.com/v1"\n', "is no address"),
        ('[project.mill]\nurl = "https://mill.example.com"\n', "must have endpoint"),
        ('[project.mill]\nendpoint = "https://m.example.com"\ncredential_env = "A-B"\n', "must name a variable"),
        ("project = 7\n", "must be tables"),
        ("[project", "cannot be read"),
    ],
)
def test_settings_that_lead_nowhere_are_named(laptop: Shell, settings: str, told: str) -> None:
    folder = laptop.folder / "settings" / "contextful"
    folder.mkdir(parents=True)
    (folder / "projects.toml").write_text(settings, "utf-8")

    refused = laptop("storage", "guard", "--project", "mill", "--json")

    assert (refused.code, refused.error["name"]) == (2, "OperatorEndpointUnusable")
    assert told in refused.err


def broken_settings(laptop: Shell, text: str) -> Path:
    """The file of known projects, whose third line does not end."""
    file = laptop.folder / "settings" / "contextful" / "projects.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f"{text}\n\n[project.mill\n", "utf-8")
    return file


@pytest.mark.parametrize("text", ["# nothing", '[project.bakery]\nendpoint = "https://bakery.example.com"'])
def test_broken_settings_of_other_projects_keep_no_one_from_the_store_at_hand(laptop: Shell, text: str) -> None:
    broken_settings(laptop, text)

    assert laptop("storage", "guard").out == "no guard stands in project shop\n"
    assert laptop("storage", "guard", "--token", "g-1", "--json").error["name"] == "ExecutionGuardUnknown"


@pytest.mark.parametrize(("text", "project"), [("[project.shop]", "shop"), ("# nothing", "mill")])
def test_broken_settings_that_are_needed_are_named_with_file_line_and_remedy(
    laptop: Shell, text: str, project: str
) -> None:
    file = broken_settings(laptop, text)

    refused = laptop("storage", "guard", "--project", project, "--json")

    assert (refused.code, refused.error["name"]) == (2, "OperatorEndpointUnusable")
    assert f"{file}: cannot be read" in refused.error["message"]
    assert "(at line 3, column 14)" in refused.error["message"]
    assert refused.error["remedy"] == "mend that file, or say where the Worker is by CONTEXTFUL_OPERATOR_ENDPOINT"


def test_broken_settings_are_not_looked_at_where_a_variable_names_the_worker(laptop: Shell) -> None:
    broken_settings(laptop, "[project.shop]")
    laptop.set("CONTEXTFUL_OPERATOR_ENDPOINT", "http://127.0.0.1:9")
    laptop.set("CONTEXTFUL_OPERATOR_CREDENTIAL", "held")

    assert laptop("storage", "guard", "--json").error["name"] == "OperatorEndpointUnreachable"


@pytest.mark.parametrize("operator", ["", "anna\n", "a" * 201])
def test_an_operator_who_is_no_name_is_refused_before_a_worker_is_asked(laptop: Shell, operator: str) -> None:
    words = ["storage", "reconcile-guard", "--token", "g-1", "--evidence", "receipt:k:ch_1", "--operator", operator]
    here = laptop(*words, "--json")
    laptop.set("CONTEXTFUL_OPERATOR_ENDPOINT", "http://127.0.0.1:9")
    laptop.set("CONTEXTFUL_OPERATOR_CREDENTIAL", "held")

    there = laptop(*words, "--json")

    assert (there.code, there.error) == (here.code, here.error)
    assert (here.code, here.error["name"]) == (2, "Config")


@pytest.mark.parametrize("command", [("operator", "token"), ("storage", "guard")])
def test_without_a_manifest_the_project_may_be_named(laptop: Shell, command: tuple[str, str]) -> None:
    (laptop.folder / "contextful.toml").unlink()

    refused = laptop(*command, "--json")

    assert (refused.code, refused.error["name"]) == (2, "ManifestInvalid")
    assert "--project NAME" in refused.err


def test_a_key_is_made_once_and_for_its_owner_alone(laptop: Shell) -> None:
    first, second = laptop("operator", "key"), laptop("operator", "key")

    file = laptop.folder / "settings" / "contextful" / "operator.pem"
    assert first.code == second.code == 0
    assert first.out == second.out
    assert first.out.count("\n") == 1
    assert "OPERATOR_KEYS" in first.err
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_token_is_all_that_is_printed_and_names_project_and_operator(laptop: Shell) -> None:
    public = laptop("operator", "key").out.strip()

    made = laptop("operator", "token", "--operator", "anna", "--ttl", "2h")

    shown = presented(made.out.strip(), algorithm=EDDSA)
    now_s = SystemClock().now() // 1000
    assert made.out.count("\n") == 1
    assert public in made.err
    assert token_subject(shown.claims, project="shop", now_s=now_s) == "anna"
    assert shown.claims["exp"] - shown.claims["iat"] == 7200
    assert public.startswith(f"{shown.key_id}:")
    assert laptop.json("operator", "token", "--project", "mill")["project"] == "mill"


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        (lambda file: file.chmod(0o644), "may be read by others"),
        (lambda file: file.write_bytes(b"no key"), "holds no Ed25519 private key"),
        (lambda file: file.unlink(), "is not there; contextful operator key makes one"),
        (lambda file: (file.unlink(), file.mkdir()), "is a folder; contextful operator key makes one"),
    ],
)
def test_a_key_that_cannot_be_trusted_signs_nothing(laptop: Shell, broken: Any, told: str) -> None:
    laptop("operator", "key")
    broken(laptop.folder / "settings" / "contextful" / "operator.pem")

    refused = laptop("operator", "token", "--json")

    assert (refused.code, refused.error["name"]) == (2, "OperatorKeyUnusable")
    assert told in refused.err


@pytest.mark.parametrize("ttl", ["32d", "0s", "soon"])
def test_a_token_lives_no_longer_than_it_is_taken(laptop: Shell, ttl: str) -> None:
    assert laptop("operator", "token", "--ttl", ttl).code == 2


def test_without_cryptography_the_package_is_named(laptop: Shell, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden" / "cryptography"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ModuleNotFoundError('hidden')\n", encoding="utf-8")
    path = os.pathsep.join([str(hidden.parent), os.environ.get("PYTHONPATH", "")])

    refused = laptop.script("operator", "key", "--json", PYTHONPATH=path)

    assert (refused.code, json.loads(refused.out)["error"]["name"]) == (2, "OperatorKeyUnusable")
    assert "pip install 'contextful[cloudflare]'" in refused.err
