"""A disk that is full when a run wants to commit, and has room again later."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from tests.crash.herd import LOCAL
from tests.crash.scene import KEYLESS, LEASE_AND_A_BIT_MS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.crash.herd import Child
    from tests.crash.scene import Scene, Stagehand

BEFORE_THE_PARTS = "before put_all #1"
BEFORE_THE_MARKER = "before create items/commits/*.json #1"

pytestmark = [
    pytest.mark.parametrize("profile", LOCAL),
    pytest.mark.parametrize("at", [BEFORE_THE_PARTS, BEFORE_THE_MARKER]),
]


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of two megabytes at `folder`; the test is skipped where one may not be mounted."""
    folder.mkdir()
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", folder], capture_output=True, check=False
    )
    if mounting.returncode:
        pytest.skip(f"no file system can be mounted here: {mounting.stderr!r}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: Path) -> Path:
    """Take every byte that is left; return what to remove for room."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while file.write(b"\0" * size):
                    pass
    assert os.statvfs(folder).f_bavail == 0
    return ballast


def fails_naming_the_place(child: Child, scene: Scene) -> None:
    """Continue the stopped child; it ends with an error that says where and what to do, and nothing was committed."""
    child.goes_on()
    assert child.ended() == 1
    told = child.result
    errors = [run["error"] for run in told["runs"]] + told["refusals"]
    (error,) = errors
    assert error["name"] == "StorageUnusable"
    assert str(scene.state) in error["message"]
    assert "run again" in error["message"]
    assert scene.commits() == []


@pytest.mark.clause("run.own.stage-discard", "run.own.one-commit-per-run", "run.journal.replay-lands")
def test_a_full_disk_fails_the_run_by_name_and_loses_nothing(
    stagehand: Stagehand, tmp_path: Path, profile: str, at: str
) -> None:
    scene = stagehand.scene(KEYLESS, profile)
    with small_disk(scene.state):
        child = scene.start(at=at, signal=signal.SIGSTOP)
        child.stopped()
        ballast = fill(scene.state)

        fails_naming_the_place(child, scene)

        ballast.unlink()
        told = scene.finished(offset_ms=LEASE_AND_A_BIT_MS)
        assert (told["exit"], told["runs"][0]["replayed"]) == (0, 6)
        assert scene.commits() == stagehand.reference(KEYLESS.name, profile).once
        assert set(scene.shelf.asked.values()) == {1}


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="another process's limits cannot be set here")
@pytest.mark.clause("run.own.stage-discard", "run.own.one-commit-per-run", "run.journal.replay-lands")
def test_a_quota_that_refuses_every_byte_fails_the_run_by_name_and_loses_nothing(
    stagehand: Stagehand, profile: str, at: str
) -> None:
    scene = stagehand.scene(KEYLESS, profile)
    child = scene.start(at=at, signal=signal.SIGSTOP)
    child.stopped()
    resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    fails_naming_the_place(child, scene)

    told = scene.finished(offset_ms=LEASE_AND_A_BIT_MS)
    assert (told["exit"], told["runs"][0]["replayed"]) == (0, 6)
    assert scene.commits() == stagehand.reference(KEYLESS.name, profile).once
    assert set(scene.shelf.asked.values()) == {1}
