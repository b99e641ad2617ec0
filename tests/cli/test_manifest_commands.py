"""Checking, listing and previewing: nothing runs and nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import ORDERS

NEIGHBOUR = """
[[pipeline]]
id = "other"
source = { kind = "http", url = "https://example.com/", headers = { A = "${API_TOKEN}" } }

[[pipeline.table]]
name = "other"
"""

if TYPE_CHECKING:
    from tests.cli.conftest import Shell


def test_validate_says_what_is_there(shell: Shell) -> None:
    shell.orders()

    document = shell.json("pipeline", "validate")

    assert document["valid"] is True
    assert document["pipelines"] == {"orders": ["orders"]}
    assert document["missing_secrets"] == []


def test_validate_warns_of_a_secret_that_is_not_set(shell: Shell) -> None:
    shell.write(
        "contextful.toml",
        ORDERS.replace(
            'kind = "file", path = "orders.jsonl"', 'kind = "http", url = "https://example.com/${API_TOKEN}"'
        ),
    )

    ended = shell("pipeline", "validate")

    assert ended.code == 0
    assert "warning: " in ended.err
    assert "API_TOKEN" in ended.err


@pytest.mark.clause("run.record.site-id-unresolved", "run.record.site-id-length")
@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ("", "project.site_id: found nothing; allowed: 1 to 64 letters"),
        ('site_id = "a"\nsite_id_env = "B"', "project.site_id_env: found site_id and site_id_env; allowed: one of the"),
        ('site_id = "a/b"', 'project.site_id: found "a/b"; allowed: 1 to 64 letters'),
    ],
)
def test_validate_tells_of_a_site_id_that_no_run_would_start_with_beside_all_else(
    shell: Shell, declared: str, problem: str
) -> None:
    shell.write("contextful.toml", ORDERS.replace('site_id = "laptop"', declared).replace('"file"', '"fil"'))

    refused = shell("pipeline", "validate", "--json")

    assert refused.code == 2
    assert refused.error["name"] == "ManifestInvalid"
    assert problem in refused.error["message"]
    assert 'source.kind: found "fil"' in refused.error["message"]


@pytest.mark.clause("run.record.site-id-unresolved")
def test_validate_takes_the_site_id_that_replaces_the_declaration_as_a_run_does(shell: Shell) -> None:
    shell.write("contextful.toml", ORDERS.replace('site_id = "laptop"\n', ""))

    assert shell("pipeline", "validate").code == 2
    assert shell.json("pipeline", "validate", "--site-id", "desk")["site_id"] == "desk"
    wrong = shell("pipeline", "validate", "--site-id", "desk", "--site-id-env", "SITE")
    assert (wrong.code, wrong.err.partition(":")[0]) == (2, "SiteIdUnresolved")


@pytest.mark.clause("run.record.site-id-unresolved")
def test_validate_warns_of_a_site_ids_variable_that_is_not_set(shell: Shell) -> None:
    shell.write("contextful.toml", ORDERS.replace('site_id = "laptop"', 'site_id_env = "SITE"'))

    warned = shell("pipeline", "validate")

    assert warned.code == 0
    assert "warning: the site id is not resolved: project.site_id_env names the variable SITE" in warned.err
    shell.set("SITE", "desk")
    assert shell.json("pipeline", "validate")["site_id"] == "desk"


def test_list_tells_each_table_with_its_source(shell: Shell) -> None:
    shell.orders()

    ended = shell("pipeline", "list")

    assert "orders.jsonl" in ended.out
    assert shell.json("pipeline", "list")["pipelines"][0]["key"] == ["id"]


def test_a_preview_shows_types_and_rows_and_lands_nothing(shell: Shell) -> None:
    shell.orders({"id": 2**60, "at": "2026-01-01T00:00:00Z", "tags": ["a"], "gone": None})

    ended = shell("pipeline", "preview", "orders", "--json")

    (page,) = ended.document["tables"]
    assert page["columns"] == [
        {"name": "id", "type": "int64"},
        {"name": "at", "type": "string"},
        {"name": "tags", "type": "json"},
    ]
    assert page["untyped"] == ["gone"]
    assert page["downgrades"] == ["tags"]
    assert page["rows"][0][0] == 2**60
    assert not (shell.folder / ".contextful").exists()


def test_a_preview_for_people_says_that_nothing_landed(shell: Shell) -> None:
    shell.orders()

    assert "2 rows on the first page; nothing has landed" in shell("pipeline", "preview", "orders").out


def test_a_preview_says_of_each_column_what_it_lands_as_less_than_it_was(shell: Shell) -> None:
    shell.orders({"id": 1, "at": "2026-01-01T00:00:00.123456789Z", "tags": ["a"]})
    shell.write("contextful.toml", f'{ORDERS}columns = {{ at = {{ type = "timestamp" }} }}\n')

    told = shell("pipeline", "preview", "orders").out

    assert "  at timestamp  (digits behind the microsecond are cut)" in told
    assert "  tags json  (nested values land as JSON text)" in told


def test_a_preview_masks_the_manifests_secrets(shell: Shell) -> None:
    shell.orders({"id": 1, "at": "2026-01-01T00:00:00Z", "note": "the key is s3cret-value"})
    shell.write("contextful.toml", ORDERS + NEIGHBOUR)
    shell.set("API_TOKEN", "s3cret-value")

    ended = shell("pipeline", "preview", "orders")

    assert "s3cret-value" not in ended.out


def test_a_source_that_cannot_be_read_is_a_named_error(shell: Shell) -> None:
    shell.orders()
    shell.write("orders.jsonl", "{broken\n")

    ended = shell("pipeline", "preview", "orders")

    assert ended.code == 1
    assert ended.err.startswith("SourceShape: ")
    assert "Traceback" not in ended.err


def test_init_writes_where_the_manifest_option_says(shell: Shell) -> None:
    document = shell.json("init", "--manifest", "deep/er/contextful.toml")

    assert document["written"] == ["deep/er/contextful.toml"]
    assert shell("pipeline", "validate", "--manifest", "deep/er/contextful.toml").code == 0


def test_init_writes_no_manifest_of_another_name(shell: Shell) -> None:
    assert shell("init", "--manifest", "other.toml").code == 2


@pytest.mark.parametrize("command", [("status",), ("pipeline", "validate"), ("storage", "guard")])
def test_a_working_directory_that_is_gone_is_told(shell: Shell, command: tuple[str, ...]) -> None:
    gone = shell.folder / "gone"
    gone.mkdir()
    shell.monkeypatch.chdir(gone)
    gone.rmdir()

    refused = shell(*command, "--json")

    assert (refused.code, refused.error["name"]) == (2, "ManifestInvalid")
    assert "the working directory is gone; go to one that is there" in refused.error["message"]
