"""`pipeline backfill` in processes of its own, which are killed and interrupted, and what repeats of it do."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from engine.cli import session
from engine.clock import SystemClock
from engine.pipeline.chunks import spanned
from engine.pipeline.plans import Plans, plan_of
from tests.cli.dated_site import FIFTY, FIVE_DAYS, SPELLED, Site, ids

if TYPE_CHECKING:
    from tests.cli.conftest import Shell


def attempts() -> list[int]:
    """How often each window of the five days was tried."""
    with session.project(None) as project:
        (table,) = project.manifest.pipelines[0].tables
        span = spanned(table, SPELLED[0], SPELLED[5], every="1d", position=None)
        return [planned.attempts for planned in Plans(project.profile.database).read(plan_of(table, span))]


@pytest.mark.parametrize("profile", ["sqlite", "file"])
def test_a_backfill_killed_in_its_third_chunk_goes_on_there_once_its_lease_has_lapsed(
    shell: Shell, site: Site, profile: str
) -> None:
    shell.set("CONTEXTFUL_STORAGE_PROFILE", profile)
    site.hangs = {SPELLED[2]}
    process = shell.start(*FIVE_DAYS)
    assert site.reached.wait(30)
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    site.hangs, site.asked = set(), []
    site.release.set()

    later = session.clock.set(SystemClock(31_000))
    try:
        ended = shell.json(*FIVE_DAYS)
    finally:
        session.clock.reset(later)

    assert ended["chunks"] == {"done": 5, "total": 5}
    assert ids(shell) == FIFTY
    assert site.days == SPELLED[2:5]
    assert (SPELLED[2], SPELLED[3], 1) not in site.asked
    assert attempts() == [1, 1, 2, 1, 1]


def test_until_its_lease_lapses_a_killed_chunk_is_only_not_now(shell: Shell, site: Site) -> None:
    site.hangs = {SPELLED[4]}
    process = shell.start(*FIVE_DAYS)
    assert site.reached.wait(30)
    process.send_signal(signal.SIGKILL)
    process.wait(30)

    ended = shell(*FIVE_DAYS)

    assert ended.code == 75
    assert f"orders {SPELLED[4]}..{SPELLED[5]}: ExecutionLive" in ended.err
    assert "4 of 5 chunks done" in ended.out


def test_ctrl_c_exits_130_and_the_same_command_goes_on(shell: Shell, site: Site) -> None:
    site.hangs = {SPELLED[1]}
    process = shell.start(*FIVE_DAYS)
    assert site.reached.wait(30)

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "1 of 5 chunks done, 10 rows landed now" in out
    assert "next: the same command goes on with what is not done" in err
    assert "Traceback" not in err
    site.hangs, site.asked = set(), []
    again = shell(*FIVE_DAYS)
    assert (again.code, again.out) == (0, "5 of 5 chunks done, 40 rows landed now\n")
    assert site.asked[0] == (SPELLED[1], SPELLED[2], 2)
    assert ids(shell) == FIFTY
