"""Commits that the catalog knows and the corpus has no more: said by table and number, with what mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Shell

COMMITS = 3


@pytest.fixture
def landed(shell: Shell) -> Shell:
    """Three commits of one order each; the site may land more."""
    for number in range(1, COMMITS + 1):
        land(shell, number)
    return shell


def land(shell: Shell, number: int) -> None:
    """Land order `number` beside those before it, as run `r-<number>`."""
    shell.orders(*({"id": each, "at": f"2026-01-0{each}T00:00:00Z"} for each in range(1, number + 1)))
    ended = shell("pipeline", "run", "orders", "--run-id", f"r-{number}")
    assert ended.code == 0, ended.err


def manifest(shell: Shell, seq: int) -> Path:
    return shell.folder / ".contextful" / "corpus" / "orders" / "commits" / f"{seq:012}.json"


def problems(shell: Shell) -> list[str]:
    found: list[str] = shell("storage", "check", "--json").document["problems"]
    return found


def test_a_last_commit_that_is_gone_is_named_with_what_is_lost(landed: Shell) -> None:
    manifest(landed, 3).unlink()

    ended = landed("storage", "check", "--json")

    (problem,) = ended.document["problems"]
    assert ended.code == 1
    assert problem.startswith("orders: commit 3 (r-3)")
    assert "orders/commits/000000000003.json is gone" in problem
    assert "goes on from commit 2" in problem
    assert "bring it back from a copy of the corpus" in problem


def test_of_several_that_are_gone_the_first_and_the_last_are_named(landed: Shell) -> None:
    for seq in (2, 3):
        manifest(landed, seq).unlink()

    (problem,) = problems(landed)

    assert problem.startswith("orders: commits 2 to 3 (the last one r-3)")
    assert "goes on from commit 1" in problem


def test_a_table_without_any_of_its_commits_is_named(landed: Shell) -> None:
    for seq in (1, 2, 3):
        manifest(landed, seq).unlink()

    (problem,) = problems(landed)

    assert problem.startswith("orders: commits 1 to 3")
    assert "begins anew" in problem


def test_a_gap_is_named_once(landed: Shell) -> None:
    manifest(landed, 2).unlink()

    (problem,) = problems(landed)

    assert "000000000002.json should stand here" in problem


def test_once_the_manifest_is_back_nothing_is_wrong(landed: Shell) -> None:
    content = manifest(landed, 3).read_bytes()
    manifest(landed, 3).unlink()
    assert problems(landed)

    manifest(landed, 3).write_bytes(content)

    assert problems(landed) == []


def test_a_commit_that_took_a_lost_ones_number_is_told_from_it(landed: Shell) -> None:
    manifest(landed, 3).unlink()
    land(landed, 4)

    (problem,) = problems(landed)

    assert problem.startswith("orders: commit 3 is r-3 in the catalog and r-4 in the corpus")


@pytest.mark.parametrize("gone", [(3,), (1, 2, 3)])
def test_a_rebuilt_catalog_takes_the_corpus_as_it_is(landed: Shell, gone: tuple[int, ...]) -> None:
    for seq in gone:
        manifest(landed, seq).unlink()

    assert landed("catalog", "rebuild").code == 0

    assert problems(landed) == []
    land(landed, 4)
    assert landed.json("read", "SELECT id FROM orders ORDER BY id")["rows"] == [[1], [2], [3], [4]]


def test_a_table_that_was_dropped_has_lost_nothing(landed: Shell) -> None:
    assert landed("table", "drop", "orders", "--yes").code == 0

    assert problems(landed) == []
