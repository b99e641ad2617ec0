"""A store that may only be read, as a mounted backup: what only looks works there, and what writes says what to do."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.forbidden import unwritable, without_privilege

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Ended, Shell

KEY = "ab" * 32
LOOKS = (
    ("read",),
    ("read", "SELECT count(*) FROM orders"),
    ("read", "SELECT count(*) FROM _runs"),
    ("status",),
    ("run", "list"),
    ("storage", "check"),
)


@pytest.fixture(params=["sqlite", "file"])
def landed(shell: Shell, request: pytest.FixtureRequest) -> Shell:
    """Two orders, landed, over each profile of one machine."""
    shell.set("CONTEXTFUL_STORAGE_PROFILE", request.param)
    shell.orders()
    assert shell("pipeline", "run", "orders").code == 0
    return shell


def state(shell: Shell) -> Path:
    """The state file of the store."""
    (found,) = (shell.folder / ".contextful").glob("*.sqlite")
    return found


@contextmanager
def in_use(shell: Shell) -> Iterator[None]:
    """Hold the state open: what was committed last lies in the log beside it."""
    with closing(sqlite3.connect(state(shell))) as held:
        held.execute("SELECT count(*) FROM meta").fetchall()
        yield


def looked(shell: Shell, *arguments: str) -> Ended:
    """Run a command that may write nothing below the store."""
    with unwritable(shell.folder / ".contextful"):
        return shell.script(*arguments, before=without_privilege())


@pytest.mark.parametrize("arguments", LOOKS, ids=" ".join)
def test_what_only_looks_works_where_nothing_may_be_written(landed: Shell, arguments: tuple[str, ...]) -> None:
    expected = landed(*arguments)

    ended = looked(landed, *arguments)

    assert (ended.code, ended.out) == (0, expected.out), ended.err


def test_what_another_has_open_is_read_with_its_latest_changes(landed: Shell) -> None:
    with in_use(landed):
        landed("pipeline", "run", "orders", "--run-id", "latest")

        ended = looked(landed, "run", "show", "latest", "--json")

    assert (ended.code, ended.document["run_id"]) == (0, "latest")


def test_state_that_is_not_whole_without_its_log_is_refused_and_the_rows_are_read(landed: Shell) -> None:
    with in_use(landed):
        landed("pipeline", "run", "orders")
        shutil.copytree(landed.folder / ".contextful", landed.folder / "copy")
    shutil.rmtree(landed.folder / ".contextful")
    (landed.folder / "copy").rename(landed.folder / ".contextful")
    state(landed).with_name(f"{state(landed).name}-shm").unlink()

    refused, read = looked(landed, "status"), looked(landed, "read", "SELECT id FROM orders ORDER BY id", "--json")

    assert refused.code == 1
    assert f"{state(landed).name}-wal holds what was committed last" in refused.err
    assert "copy it with everything beside it to a folder that may be written" in refused.err
    assert read.document["rows"] == [[1], [2]]


def test_a_run_is_refused_where_nothing_may_be_written(landed: Shell) -> None:
    ended = looked(landed, "pipeline", "run", "orders")

    assert ended.code == 1
    assert "make it and its folder writable for whoever runs this" in ended.err


def test_rows_are_read_where_there_is_no_state_and_none_is_made(landed: Shell) -> None:
    state(landed).unlink()

    assert landed.json("read", "SELECT count(*) FROM orders")["rows"] == [[2]]
    assert not list((landed.folder / ".contextful").glob("*.sqlite*"))


def test_a_sealed_corpus_is_read_where_no_copy_of_it_may_be_kept(shell: Shell) -> None:
    shell.set("CONTEXTFUL_SEAL_KEY", KEY)
    shell.orders()
    assert shell("pipeline", "run", "orders").code == 0

    ended = looked(shell, "read", "SELECT id FROM orders ORDER BY id", "--json")

    assert ended.document["rows"] == [[1], [2]]
    assert not (shell.folder / ".contextful" / "opened").exists()
