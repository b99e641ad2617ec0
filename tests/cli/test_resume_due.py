"""A vendor that asks for an hour: what the commands say, and how what waits is gone on with."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from engine.cli import session
from engine.clock import SystemClock
from engine.errors import RateLimited, Waiting
from engine.project import Project
from tests.answering import Answering, listening

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Shell

HOUR_S = 3_600

MANIFEST = """\
[project]
name = "shop"
site_id = "laptop"

[[pipeline]]
id = "shop"
source = {{ kind = "http", url = "{url}/items", records = "items", paginate = {{ by = "next-url", field = "next" }} }}

[[pipeline.table]]
name = "orders"
primary_key = ["id"]
"""


@dataclass
class Vendor:
    """Two pages of an item each; the second is refused `refusals` times, with `Retry-After` seconds to wait."""

    retry_after: int = HOUR_S
    refusals: int = 1
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        self.asked.append(path)
        if path == "/items":
            return 200, {"items": [{"id": 1}], "next": f"{self.url}/items?page=2"}
        if self.refusals:
            self.refusals -= 1
            return 429, {}
        return 200, {"items": [{"id": 2}], "next": None}


class _Handler(Answering):
    vendor: Vendor

    def reply(self) -> None:
        status, document = self.vendor.answer(self.path)
        self.answer(status, document, {"Retry-After": str(self.vendor.retry_after)} if status == 429 else {})


@pytest.fixture
def vendor(shell: Shell) -> Iterator[Vendor]:
    vendor = Vendor()
    with listening(_Handler, vendor=vendor) as vendor.url:
        shell.write("contextful.toml", MANIFEST.format(url=vendor.url))
        yield vendor


def later(seconds: float) -> None:
    """Let every later command run on a clock so far ahead."""
    session.clock.set(SystemClock(int(seconds * 1000)))


@pytest.mark.clause("run.retry.retry-after", "run.retry.waiting-state")
def test_a_run_told_to_wait_an_hour_exits_at_once_with_75_and_says_until_when(shell: Shell, vendor: Vendor) -> None:
    ended = shell("pipeline", "run", "shop", "--json")

    (run,) = ended.document["runs"]
    assert (ended.code, ended.document["state"], run["status"]) == (75, "running", "waiting")
    due = datetime.fromisoformat(run["next_attempt_at"]) - datetime.fromisoformat(run["started_at"])
    assert HOUR_S <= due.total_seconds() < HOUR_S + 60
    assert f"orders waits until {run['next_attempt_at']}: contextful run resume-due goes on then" in ended.err
    assert "at work in another process" not in ended.err
    assert vendor.asked == ["/items", "/items?page=2"]


@pytest.mark.clause("run.retry.resume-at")
def test_a_run_that_comes_early_says_so_again_and_asks_nothing(shell: Shell, vendor: Vendor) -> None:
    first = shell("pipeline", "run", "shop", "--json").document
    vendor.asked.clear()

    again = shell("pipeline", "run", "shop")

    assert (again.code, vendor.asked) == (75, [])
    assert f"waiting until {first['runs'][0]['next_attempt_at']}" in again.out


@pytest.mark.clause("run.retry.wake", "run.retry.resume-at")
def test_resume_due_goes_on_with_what_is_due_under_its_own_fire(shell: Shell, vendor: Vendor) -> None:
    first = shell("pipeline", "run", "shop", "--json").document
    vendor.asked.clear()
    later(HOUR_S)

    resumed = shell.json("run", "resume-due")

    (fire,) = resumed["fires"]
    assert (fire["fire_id"], fire["state"], resumed["waiting"]) == (first["fire_id"], "completed", [])
    assert [run["run_id"] for run in fire["runs"]] == [first["runs"][0]["run_id"]]
    assert vendor.asked == ["/items?page=2"]
    assert shell.json("read", "SELECT count(*) AS n FROM orders")["rows"] == [[2]]
    assert [run["status"] for run in shell.json("run", "list")["runs"]] == ["success"]
    assert shell("status").out == "nothing is unfinished\n"


@pytest.mark.clause("run.retry.wake")
def test_before_its_instant_resume_due_fires_nothing_and_names_it(shell: Shell, vendor: Vendor) -> None:
    due = shell("pipeline", "run", "shop", "--json").document["runs"][0]["next_attempt_at"]
    vendor.asked.clear()

    ended = shell("run", "resume-due")

    assert (ended.code, ended.out, vendor.asked) == (0, f"table:orders waits until {due}\n", [])
    assert shell.json("run", "resume-due")["waiting"][0]["due"] is False


@pytest.mark.clause("run.retry.wake", "run.retry.retry-after")
def test_resume_due_sits_out_an_instant_that_comes_within_its_patience(shell: Shell, vendor: Vendor) -> None:
    shell("pipeline", "run", "shop")
    later(HOUR_S - 2)

    ended = shell("run", "resume-due", "--wait", "30s")

    assert (ended.code, "sitting it out" in ended.err) == (0, True)
    assert "orders: 2 rows landed" in ended.out


@pytest.mark.clause("run.retry.waiting-state", "run.retry.not-before")
def test_a_vendor_that_asks_again_is_waited_for_again_and_only_once_an_instant(shell: Shell, vendor: Vendor) -> None:
    vendor.refusals = 2
    shell("pipeline", "run", "shop")
    later(HOUR_S)

    again = shell("run", "resume-due")
    later(2 * HOUR_S + 1)

    assert again.code == 75
    assert shell("run", "resume-due").code == 0
    assert vendor.asked == ["/items", "/items?page=2", "/items?page=2", "/items?page=2"]


@pytest.mark.clause("run.retry.resume-at")
def test_a_run_with_patience_sits_the_instant_out(shell: Shell, vendor: Vendor) -> None:
    vendor.retry_after = 301
    shell("pipeline", "run", "shop")
    later(300)

    ended = shell("pipeline", "run", "shop", "--wait", "30s")

    assert (ended.code, "table:orders waits until" in ended.err) == (0, True)
    assert "2 rows landed" in ended.out


@pytest.mark.clause("run.retry.waiting-state")
def test_status_shows_the_instant_and_the_verb(shell: Shell, vendor: Vendor) -> None:
    due = shell("pipeline", "run", "shop", "--json").document["runs"][0]["next_attempt_at"]

    (pending,) = shell.json("status")["pending"]
    later(HOUR_S)
    (after,) = shell.json("status")["pending"]

    assert (pending["state"], pending["wake_at"], after["state"]) == ("waiting", due, "pending")
    for shown in (pending, after):
        assert shown["next"].startswith("contextful run resume-due")
    assert f"until {due}" in shell("status").out


@pytest.mark.clause("run.retry.wake")
def test_a_program_s_own_scope_is_listed_as_due_and_left_to_the_program(shell: Shell) -> None:
    shell.orders()
    with Project.find().engine() as engine, pytest.raises(Waiting), engine.open("nightly", plan="p") as execution:
        execution.step("ask", _throttled)
    early = shell("run", "resume-due")
    later(HOUR_S)

    ended = shell("run", "resume-due")

    assert early.out.startswith("host:nightly waits until ")
    assert (ended.code, ended.out.startswith("host:nightly is due since ")) == (0, True)
    assert "run the program that opens it" in ended.out
    assert [each["due"] for each in shell.json("run", "resume-due")["waiting"]] == [True]


def test_where_nothing_waits_resume_due_says_so(shell: Shell) -> None:
    shell.orders()

    assert shell("run", "resume-due").out == "nothing waits\n"
    assert shell.json("run", "resume-due") == {"fires": [], "waiting": []}


def test_a_table_that_is_declared_no_more_stays_and_is_said(shell: Shell, vendor: Vendor) -> None:
    shell("pipeline", "run", "shop")
    shell.orders()
    shell.write("contextful.toml", (shell.folder / "contextful.toml").read_text().replace('"orders"', '"others"'))
    later(HOUR_S)

    ended = shell("run", "resume-due", "--wait", "1s")

    assert ended.code == 0
    assert "table:orders is due since" in ended.out


def _throttled(_: Any) -> None:
    raise RateLimited("slow down", wait_ms=HOUR_S * 1000)
