"""`pipeline backfill` as people meet it: in processes that are killed and interrupted, and what each refusal says."""

from __future__ import annotations

import json
import signal
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

import pytest

from engine.cli import session
from engine.cli.chunk_progress import ChunkLines, MovingLine
from engine.clock import SystemClock
from engine.pipeline.backfill import Chunked
from engine.pipeline.chunks import Chunk, Window, spanned
from engine.pipeline.plans import Planned, Plans, plan_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Shell

MANIFEST: Final = """\
[project]
name = "shop"
site_id = "laptop"

[[pipeline]]
id = "orders"

[pipeline.source]
kind = "http"
url = "{url}/orders"
records = "items"
paginate = {{ by = "page", param = "page" }}
retry = {{ attempts = 1 }}

[[pipeline.table]]
name = "orders"
incremental = "at"
since_param = "since"
until_param = "until"
"""

FIVE_DAYS: Final = ("pipeline", "backfill", "orders", "--from", "2026-01-01", "--to", "2026-01-06", "--every", "1d")
SPELLED: Final = [f"2026-01-{n:02}" for n in range(1, 7)]


@dataclass
class Site:
    """Ten orders a day for a week, four a page; a day's second page hangs or fails where the day is in that set."""

    url: str = ""
    asked: list[tuple[str, str, int]] = field(default_factory=list)
    hangs: set[str] = field(default_factory=set)
    fails: set[str] = field(default_factory=set)
    reached: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)

    def answer(self, since: str, until: str, page: int) -> tuple[int, Any]:
        self.asked.append((since, until, page))
        if page == 2 and since in self.hangs:
            self.reached.set()
            self.release.wait(30)
        if page == 2 and since in self.fails:
            return 404, {}
        rows = [{"id": 100 * day + hour, "at": f"2026-01-{day:02}T{hour:02}:00:00Z"}
                for day in range(1, 8) for hour in range(10)]  # fmt: skip
        found = [row for row in rows if since <= str(row["at"]) < (until or "9")]
        return 200, {"items": found[4 * (page - 1) : 4 * page]}

    @property
    def days(self) -> list[str]:
        return list(dict.fromkeys(since for since, _, _ in self.asked))


class _Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        query = dict(parse_qsl(urlsplit(self.path).query))
        status, body = self.site.answer(query.get("since", ""), query.get("until", ""), int(query["page"]))
        content = json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except ConnectionError:
            pass  # whoever asked was killed

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site(shell: Shell) -> Iterator[Site]:
    site = Site()
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"site": site})) as server:
        site.url = f"http://127.0.0.1:{server.server_port}"
        shell.write("contextful.toml", MANIFEST.format(url=site.url))
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield site
        site.release.set()
        server.shutdown()
        thread.join()


def ids(shell: Shell) -> list[int]:
    return [row[0] for row in shell.json("read", "SELECT id FROM orders ORDER BY id")["rows"]]


def attempts() -> list[int]:
    """How often each window of the five days was tried."""
    with session.project(None) as project:
        (table,) = project.manifest.pipelines[0].tables
        span = spanned(table, SPELLED[0], SPELLED[5], every="1d", position=None)
        return [planned.attempts for planned in Plans(project.profile.database).read(plan_of(table, span))]


FIFTY: Final = [100 * day + hour for day in range(1, 6) for hour in range(10)]


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
