"""Many processes that write to one SQLite file."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING

import pytest

from tests.crash.scene import KEYLESS
from tests.scale import scale

if TYPE_CHECKING:
    from tests.crash.scene import Stagehand

WRITERS = 8
WRITES = scale(short=50, full=200)
SOON_NS = 30_000_000


@pytest.mark.clause("run.journal.sqlite-write-lock")
def test_eight_processes_that_write_one_file_all_write_everything_and_none_is_told_of_a_lock(
    stagehand: Stagehand,
) -> None:
    scene = stagehand.scene(KEYLESS, "sqlite")
    assert scene.finished("steps", scope="first", url=scene.shelf.url, labels=["a"])["exit"] == 0
    begin = time.monotonic_ns() + SOON_NS

    writers = [
        scene.start("writes", who=f"w{number}", count=WRITES, begin_ns=begin, watched=False)
        for number in range(WRITERS)
    ]

    assert [writer.ended() for writer in writers] == [0] * WRITERS, scene.herd.complaints()
    with sqlite3.connect(scene.state / "state.sqlite") as state:
        (own,) = state.execute("SELECT COUNT(*) FROM fires WHERE fire_id LIKE 'own-%'").fetchone()
        shared = state.execute(
            "SELECT pipeline_id FROM fires WHERE fire_id LIKE 'shared-%' ORDER BY fire_id"
        ).fetchall()
    state.close()
    assert own == WRITERS * WRITES
    standing = [who for (who,) in shared]
    assert [writer.result["standing"] for writer in writers] == [standing] * WRITERS, "one lands, all others see it"


@pytest.mark.clause("run.journal.sqlite-write-lock", "run.journal.sqlite-stores")
def test_eight_processes_of_steps_on_one_file_record_every_step(stagehand: Stagehand) -> None:
    scene = stagehand.scene(KEYLESS, "sqlite")
    begin = time.monotonic_ns() + SOON_NS
    labels = [f"step-{number}" for number in range(WRITES)]

    writers = [
        scene.start("steps", scope=f"s{number}", url=None, labels=labels, once=True, begin_ns=begin, watched=False)
        for number in range(WRITERS)
    ]

    assert [writer.ended() for writer in writers] == [0] * WRITERS, scene.herd.complaints()
    look = scene.finished("look")
    assert look["entries"] == WRITERS * WRITES
    assert [run["status"] for run in look["runs"]] == ["success"] * WRITERS
