"""A run of a table that another process holds, or that a run under another declaration left pending."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from engine.cli import session
from engine.clock import SystemClock
from engine.fires import Fires, keyed_fire_id
from engine.pins import Pins
from engine.pipeline.sources import open_source
from engine.project import Project
from tests.cli.conftest import QUAKES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.demo.api import DemoApi
    from engine.execution.held import Held
    from tests.cli.conftest import Shell


@pytest.fixture
def holder(shell: Shell) -> Iterator[Held]:
    """A live run of the orders, in effect in another process."""
    shell.orders()
    with Project.find().engine() as engine:
        (table,) = Project.find().manifest.pipelines[0].tables
        pins = Pins(table.content_hash, connector=open_source(table).connector)
        run = engine.new_run("other", plan_ref=table.content_hash, table="orders")
        yield engine.hold("table:orders", pins, run=run)


def test_a_fire_at_work_in_another_process_is_not_now(shell: Shell) -> None:
    shell.orders()
    with Project.find().engine() as other:
        other.leases.register()
        fire_id = keyed_fire_id(project="shop", pipeline="orders", key="k")
        Fires(other.profile.database).request(fire_id, pipeline_id="orders")
        assert Fires(other.profile.database).begin(fire_id, holder=other.leases.holder)

        ended = shell("pipeline", "run", "orders", "--idempotency-key", "k", "--json")

    assert (ended.code, ended.document["state"], ended.document["runs"]) == (75, "running", [])
    assert f"fire {fire_id} is at work in another process" in ended.err


@pytest.mark.clause("run.own.live-owner")
def test_a_live_owner_is_not_now(shell: Shell, holder: Held) -> None:
    ended = shell("pipeline", "run", "orders", "--json")

    assert ended.code == 75
    assert ended.err.count("ExecutionLive: table:orders is held by attempt other") == 1
    assert ended.error["attempt"] == "other"
    assert ended.error["lease_until"].endswith("Z")
    assert [run["status"] for run in ended.document["runs"]] == ["failed"]


def test_a_wait_sits_a_live_owner_out_for_so_long(shell: Shell, holder: Held) -> None:
    began = time.monotonic()

    ended = shell("pipeline", "run", "orders", "--wait", "300ms")

    assert ended.code == 75
    assert time.monotonic() - began >= 0.3
    assert "waiting up to 0.3 s for table:orders: attempt other holds it" in ended.err


def test_a_wait_goes_on_once_the_lease_has_lapsed(shell: Shell, holder: Held) -> None:
    session.clock.set(SystemClock(31_000))

    ended = shell("pipeline", "run", "orders", "--wait", "5s", "--json")

    assert ended.code == 0
    assert ended.document["runs"][0]["rows"] == 2


def test_a_wait_that_is_no_duration_is_bad_usage(shell: Shell) -> None:
    shell.orders()

    ended = shell("pipeline", "run", "orders", "--wait", "soon")

    assert ended.code == 2
    assert "'soon' is no duration" in ended.err


def killed_and_declared_anew(shell: Shell, api: DemoApi) -> str:
    """Kill a run on its third page, let its lease lapse and declare its table otherwise; the manifest as it was."""
    manifest = QUAKES.format(url=api.url)
    shell.write("contextful.toml", manifest)
    process = shell.start("pipeline", "run", "quakes")
    assert api.slow_page.wait(30)
    process.kill()
    process.wait()
    session.clock.set(SystemClock(31_000))
    shell.write("contextful.toml", manifest.replace('since_param = "updated_after"', 'since_param = "starttime"'))
    return manifest


@pytest.mark.clause("run.own.pin-mismatch-recovery", "run.own.pinned-plan-changed")
def test_a_changed_declaration_names_both_ways_on_and_a_rewind_is_one(shell: Shell, slow_third_page: DemoApi) -> None:
    killed_and_declared_anew(shell, slow_third_page)

    refused = shell("pipeline", "run", "quakes", "--json")

    assert refused.code == 1
    error = refused.error
    assert error["name"] == "ExecutionPinMismatch"
    rewind = f"contextful run rewind {error['execution_id']} --reason TEXT"
    assert (
        f"restore the recorded build and resume it to completion, or give its recorded work up: {rewind}" in refused.err
    )
    assert refused.document["runs"][0]["status"] == "failed"

    assert shell("run", "rewind", error["execution_id"], "--reason", "renamed a parameter").code == 0
    assert shell.json("pipeline", "run", "quakes")["runs"][0]["rows"] == 1707


@pytest.mark.clause("run.own.pin-mismatch-recovery")
def test_restoring_the_declaration_resumes_what_is_pending(shell: Shell, slow_third_page: DemoApi) -> None:
    manifest = killed_and_declared_anew(shell, slow_third_page)
    assert shell("pipeline", "run", "quakes").code == 1
    shell.write("contextful.toml", manifest)

    resumed = shell.json("pipeline", "run", "quakes")

    assert (resumed["runs"][0]["status"], resumed["runs"][0]["replayed"]) == ("success", 2)
    assert shell.json("status")["pending"] == []
