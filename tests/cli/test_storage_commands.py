"""The store itself: initialized, looked over, its catalog rebuilt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.project import Project
from engine.sql import call
from tests.cli.conftest import ORDERS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Shell


@pytest.fixture
def landed(shell: Shell) -> Shell:
    """Two orders, landed."""
    shell.orders()
    assert shell("pipeline", "run", "orders").code == 0
    return shell


def state(shell: Shell) -> list[Path]:
    return sorted((shell.folder / ".contextful").glob("state.sqlite*"))


def part(shell: Shell) -> Path:
    (file,) = (shell.folder / ".contextful" / "corpus").glob("orders/parts/*/*.parquet")
    return file


def test_initialize_says_what_it_did_and_repeats_harmlessly(shell: Shell) -> None:
    shell.orders()

    first, again = shell.json("storage", "initialize"), shell.json("storage", "initialize")

    assert "owners" in first["created"]
    assert (first["adopted"], again["created"], again["adopted"]) == (False, [], False)


def test_a_whole_store_has_no_problem(landed: Shell) -> None:
    document = landed.json("storage", "check")

    assert document == {"problems": [], "tables": 1, "commits": 1, "parts": 1, "blobs": 0}


def test_a_store_nobody_has_used_has_no_problem(shell: Shell) -> None:
    shell.orders()

    assert shell("storage", "check").out == "0 problems in 0 tables, 0 commits, 0 parts, 0 blobs\n"


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (lambda file: file.unlink(), "it is missing"),
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), "bytes, commit 1 recorded"),
        (lambda file: file.write_bytes(b"x" * file.stat().st_size), "SHA-256 differs"),
    ],
)
def test_a_harmed_part_is_found(landed: Shell, harm: object, told: str) -> None:
    assert callable(harm)
    harm(part(landed))

    ended = landed("storage", "check")

    assert ended.code == 1
    assert told in ended.out


def test_every_problem_is_listed(landed: Shell) -> None:
    part(landed).unlink()
    landed.write("contextful.toml", ORDERS.replace('name = "shop"', 'name = "other"'))

    ended = landed("storage", "check", "--json")

    assert ended.code == 1
    assert len(ended.document["problems"]) == 2


@pytest.mark.clause("run.journal.execution-recovery")
def test_rows_without_state_are_adopted_only_on_request(landed: Shell) -> None:
    for file in state(landed):
        file.unlink()

    refused = landed("pipeline", "run", "orders", "--json")
    adopted = landed("storage", "initialize", "--json")

    assert refused.code == 1
    assert refused.error["name"] == "ExecutionRecoveryMismatch"
    assert "contextful storage initialize" in refused.err
    assert adopted.document["adopted"] is True
    assert "recorded work of unfinished runs is gone" in adopted.err
    assert landed("catalog", "rebuild").code == 0
    assert landed.json("pipeline", "run", "orders")["runs"][0]["rows"] == 1


@pytest.mark.clause("run.journal.machine-state", "run.record.rebuild-restores-history")
def test_a_rebuild_restores_the_cache_and_leaves_machine_state_alone(landed: Shell) -> None:
    landed.write("contextful.toml", ORDERS.replace("orders.jsonl", "*.jsonl"))
    landed.write("zz.jsonl", "{broken")
    assert landed("pipeline", "run", "orders").code == 1
    before = landed.json("status")
    runs = landed.json("run", "list")

    rebuilt = landed.json("catalog", "rebuild")

    assert rebuilt == {"runs": 2, "positions": ["orders"], "adopted": False}
    assert landed.json("status") == before
    assert len(before["pending"]) == 1
    assert landed.json("run", "list") == runs


@pytest.mark.clause("run.journal.machine-state")
def test_a_rebuild_without_state_reconstructs_no_owner(landed: Shell) -> None:
    landed.write("contextful.toml", ORDERS.replace("orders.jsonl", "*.jsonl"))
    landed.write("zz.jsonl", "{broken")
    assert landed("pipeline", "run", "orders").code == 1
    for file in state(landed):
        file.unlink()

    ended = landed("catalog", "rebuild")

    assert ended.code == 0
    assert "recorded work of unfinished runs is gone" in ended.err
    assert landed.json("status")["pending"] == []
    assert len(landed.json("run", "list")["runs"]) == 2


def test_a_rebuilt_position_is_the_newest_markers(landed: Shell) -> None:
    with Project.find() as project:
        project.profile.database.run(call("forget_cursor", table_name="orders"))

    landed.json("catalog", "rebuild")

    with Project.find() as project:
        (row,) = project.profile.database.run(call("read_cursor", table_name="orders"))[0]
    assert row[1] == 1


def test_the_file_profile_does_the_same(shell: Shell) -> None:
    shell.orders()
    shell.set("CONTEXTFUL_STORAGE_PROFILE", "file")

    assert shell("pipeline", "run", "orders").code == 0
    assert shell.json("storage", "check")["problems"] == []
    assert shell.json("read", "SELECT count(*) FROM orders")["rows"] == [[2]]


def test_an_unknown_profile_is_refused_with_those_there_are(shell: Shell) -> None:
    shell.orders()
    shell.set("CONTEXTFUL_STORAGE_PROFILE", "tape")

    ended = shell("pipeline", "run", "orders", "--json")

    assert ended.code == 2
    assert ended.error["name"] == "StorageProfileUnsupported"
    assert "sqlite" in ended.err


@pytest.mark.clause("run.journal.d1-backup")
def test_a_store_is_backed_up_and_restored_beside_its_corpus(landed: Shell) -> None:
    taken = landed.json("storage", "backup", "kept")
    for path in state(landed):
        path.unlink()

    restored = landed.json("storage", "restore", "kept")

    assert restored == taken
    assert taken["rows"]["runs"] == 1
    assert landed.json("storage", "check")["problems"] == []
    assert [run["status"] for run in landed.json("run", "list")["runs"]] == ["success"]
    assert landed("storage", "backup", "kept").code == 1


def test_a_restore_that_is_refused_says_what_to_do_about_it(landed: Shell) -> None:
    landed.json("storage", "backup", "kept")

    standing = landed("storage", "restore", "kept")
    for path in state(landed):
        path.unlink()
    landed.write("contextful.toml", (landed.folder / "contextful.toml").read_text().replace('"shop"', '"other"'))
    foreign = landed("storage", "restore", "kept")
    landed.write("contextful.toml", (landed.folder / "contextful.toml").read_text().replace('"other"', '"shop"'))
    for part in landed.folder.glob(".contextful/corpus/**/*.parquet"):
        part.unlink()
    partless = landed("storage", "restore", "kept")

    assert (standing.code, foreign.code, partless.code) == (1, 1, 1)
    assert standing.err.endswith("; what is here stands: name a database that holds nothing\n")
    assert foreign.err.endswith("; name another folder, or correct the manifest's name\n")
    assert partless.err.endswith("; bring them back from a copy of the corpus, and restore again\n")


def test_a_backup_where_nothing_can_be_written_is_refused_with_its_place(landed: Shell) -> None:
    written = landed("storage", "backup", "orders.jsonl/kept")
    read = landed("storage", "restore", "orders.jsonl/kept")

    assert (written.code, read.code) == (1, 1)
    assert written.err.startswith("StorageUnusable: orders.jsonl/kept")
    assert "choose another folder" in written.err
    assert read.err.startswith("BackupUnusable: ")


@pytest.mark.parametrize("command", [("sweep",), ("backup", "kept")])
def test_a_store_that_nobody_has_used_is_told_in_a_sentence_with_both_ways_on(
    shell: Shell, command: tuple[str, ...]
) -> None:
    shell.orders()

    refused = shell("storage", *command, "--json")

    assert (refused.code, refused.error["name"]) == (1, "ExecutionRecoveryMismatch")
    assert refused.error["found"] == "the store holds no state"
    assert refused.error["remedy"].startswith(
        "contextful storage initialize creates it where nobody has used the store"
    )
    assert "catalog rebuild" in refused.error["remedy"]
