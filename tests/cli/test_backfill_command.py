"""`pipeline backfill` as people meet it: what it tells, what it goes on with, and what each refusal says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from engine.cli.chunk_progress import ChunkLines, MovingLine
from engine.pipeline.backfill import Chunked
from engine.pipeline.chunks import Chunk, Window
from engine.pipeline.plans import Planned
from tests.cli.dated_site import FIFTY, FIVE_DAYS, MANIFEST, SPELLED, Site, ids

if TYPE_CHECKING:
    from tests.cli.conftest import Shell


def test_it_tells_each_chunk_and_that_nothing_is_left_to_do(shell: Shell, site: Site) -> None:
    first = shell(*FIVE_DAYS)
    site.asked.clear()
    second = shell(*FIVE_DAYS)

    assert first.code == 0
    told = first.err.splitlines()
    assert told[0] == f"orders {SPELLED[0]}..{SPELLED[1]}: 10 rows landed; 1 of 5 chunks done, 10 rows"
    assert told[-1] == f"orders {SPELLED[4]}..{SPELLED[5]}: 10 rows landed; 5 of 5 chunks done, 50 rows"
    assert (second.code, second.out, second.err) == (0, "5 of 5 chunks done, 0 rows landed now\n", "")
    assert site.asked == []


def test_a_failed_chunk_stops_no_other_and_is_named(shell: Shell, site: Site) -> None:
    site.fails = {SPELLED[1], SPELLED[3]}

    ended = shell(*FIVE_DAYS)

    assert ended.code == 1
    failed = f"failed: orders {SPELLED[1]}..{SPELLED[2]}, orders {SPELLED[3]}..{SPELLED[4]}"
    assert failed in ended.err
    assert "3 of 5 chunks done" in ended.out
    (pending, _) = shell.json("status")["pending"]
    assert pending["scope"] == f"chunk:orders:{SPELLED[1]}..{SPELLED[2]}"
    assert "repeat the backfill it belongs to" in pending["next"]
    site.fails = set()
    assert shell(*FIVE_DAYS).code == 0
    assert ids(shell) == FIFTY


def test_another_step_over_what_has_landed_is_said(shell: Shell, site: Site) -> None:
    shell(*FIVE_DAYS)

    ended = shell(*FIVE_DAYS[:-1], "5d")

    assert ended.code == 0
    assert "another backfill has landed 5 chunks of this window (2026-01-01 to 2026-01-06)" in ended.err
    assert "no primary key makes them one" in ended.err


def test_the_live_position_stays_and_the_runs_say_their_windows(shell: Shell, site: Site) -> None:
    shell("pipeline", "run", "orders")
    shell("pipeline", "backfill", "orders", "--from", "2026-01-02", "--to", "2026-01-04", "--every", "1d")
    site.asked.clear()

    shell("pipeline", "run", "orders")

    assert site.days == ["2026-01-07T09:00:00Z"]
    told = shell.json("read", "SELECT chunk, rows FROM _runs WHERE chunk IS NOT NULL AND phase = 'commit' ORDER BY 1")
    windows = [f"2026-01-0{n}T00:00:00Z..2026-01-0{n + 1}T00:00:00Z" for n in (2, 3)]
    assert told["rows"] == [[window, 10] for window in windows]


def test_a_live_run_between_two_goes_of_a_backfill_changes_nothing_of_its_plan(shell: Shell, site: Site) -> None:
    site.fails = {SPELLED[1]}
    shell(*FIVE_DAYS)
    shell("pipeline", "run", "orders")
    site.fails, site.asked = set(), []

    ended = shell(*FIVE_DAYS)

    assert (ended.code, ended.out) == (0, "5 of 5 chunks done, 10 rows landed now\n")
    assert site.asked[0] == (SPELLED[1], SPELLED[2], 2)


def test_a_rewind_gives_up_what_is_unfinished_in_the_window(shell: Shell, site: Site) -> None:
    site.fails = {SPELLED[1]}
    shell(*FIVE_DAYS)
    window = ("pipeline", "backfill", "orders", "--from", "2026-01-01", "--to", "2026-01-06", "--rewind")

    refused = shell(*window, "--reason", "wrong account")
    ended = shell(*window, "--reason", "wrong account", "--force")

    assert refused.code == 1
    assert "ExecutionRewindPlanCurrent" in refused.err
    assert ended.code == 0
    assert f"orders {SPELLED[1]}..{SPELLED[2]} is asked for afresh" in ended.out
    site.fails, site.asked = set(), []
    assert shell(*FIVE_DAYS).code == 0
    assert site.asked[0] == (SPELLED[1], SPELLED[2], 1)
    assert ids(shell) == FIFTY
    assert shell(*window, "--reason", "again").out == "no chunk of the window is unfinished\n"


@pytest.mark.parametrize(("options", "says"), [
    ((), "--every says what one chunk spans"),
    (("--every", "1d", "--reason", "x"), "belong to --rewind"),
    (("--rewind",), "--rewind needs --reason"),
    (("--rewind", "--reason", "x", "--every", "1d"), "leave --every out"),
    (("--every", "often"), "BackfillWindowUnusable: --every 'often'"),
])  # fmt: skip
def test_options_that_do_not_go_together_are_refused(
    shell: Shell, site: Site, options: tuple[str, ...], says: str
) -> None:
    ended = shell("pipeline", "backfill", "orders", "--from", "2026-01-01", "--to", "2026-01-06", *options)

    assert ended.code == 2
    assert says in " ".join(ended.err.replace("│", " ").split())


def test_a_table_without_a_clock_is_refused_with_the_remedy(shell: Shell, site: Site) -> None:
    manifest = MANIFEST.format(url=site.url).split('incremental = "at"')[0]
    shell.write("contextful.toml", manifest)

    ended = shell(*FIVE_DAYS, "--json")

    assert (ended.code, ended.error["name"]) == (2, "BackfillNeedsIncremental")
    assert "declare incremental" in ended.error["remedy"]
    assert site.asked == []


def test_a_terminal_gets_one_line_that_moves(capsys: pytest.CaptureFixture[str]) -> None:
    planned = Planned("b-1", 0, Chunk("orders", Window("2026-01-01", "2026-01-02")))

    with MovingLine() as line:
        line.chunked(Chunked(planned, done=True, rows=10), done=1, total=2)
        line.chunked(Chunked(planned, done=True, rows=10), done=2, total=2)
    with ChunkLines() as lines:
        lines.chunked(Chunked(planned, done=True, rows=10), done=1, total=2)

    moving, plain = capsys.readouterr().err.split("\n", 1)
    assert moving.count("\r\x1b[K") == 2
    assert "2 of 2 chunks done, 20 rows" in moving
    assert plain == "orders 2026-01-01..2026-01-02: 10 rows landed; 1 of 2 chunks done, 10 rows\n"
