"""The sweep as a command: what it says, and that a look takes nothing."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from engine.sweep import KEPT_MS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Shell


def staged_long_ago(shell: Shell) -> Path:
    """What a run that no catalog knows left in scratch, two days ago."""
    shell.orders()
    assert shell("pipeline", "run", "orders").code == 0
    folder = shell.folder / ".contextful" / "staged" / "r-gone"
    folder.mkdir(parents=True)
    (folder / "000000.arrow").write_bytes(b"half")
    instant = time.time() - 2 * KEPT_MS / 1000
    for path in (folder / "000000.arrow", folder):
        os.utime(path, (instant, instant))
    return folder


def test_a_dry_run_names_what_it_would_take_and_takes_nothing(shell: Shell) -> None:
    folder = staged_long_ago(shell)

    document = shell.json("storage", "sweep", "--dry-run")

    assert document == {"staged": ["r-gone"], "parts": [], "unfinished": [], "blobs": [], "dry_run": True}
    assert folder.is_dir()


def test_a_sweep_takes_it_and_says_so(shell: Shell) -> None:
    folder = staged_long_ago(shell)

    told = shell("storage", "sweep")

    assert told.code == 0
    assert "removed 1 staged folder, 0 unpublished parts, 0 half-written objects, 0 unreferenced blobs" in told.out
    assert not folder.exists()
    assert shell.json("storage", "sweep")["staged"] == []
    assert shell.json("storage", "check")["problems"] == []


def test_a_store_that_nobody_has_initialized_is_refused(shell: Shell) -> None:
    shell.orders()

    told = shell("storage", "sweep")

    assert told.code == 1
    assert "contextful storage initialize" in told.err
