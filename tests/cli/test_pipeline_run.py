"""One fire from the command line: what it prints, what it refuses, what its exit code says."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine.cli import session
from engine.cli.live import Live
from engine.cli.watching import Lines
from engine.clock import SystemClock
from engine.errors import Transient
from engine.fires import Fires, keyed_fire_id
from engine.pipeline.recording import PullMeta
from engine.pipeline.sources import open_source
from engine.pipeline.walk import Landing
from engine.project import Project
from engine.runs import RunRow
from engine.shapes import Pins, RunStatus
from tests.cli.conftest import ORDERS, QUAKES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.demo.api import DemoApi
    from engine.execution.held import Held
    from tests.cli.conftest import Shell

KEYS = {
    *("run_id", "execution_id", "pipeline", "table", "status", "rows", "bytes", "batches", "skipped", "not_admitted"),
    *("replayed", "started_at", "ended_at", "next_attempt_at", "error"),
}

SECRET = ORDERS.replace(
    'source = { kind = "file", path = "orders.jsonl" }',
    'source = { kind = "http", url = "http://127.0.0.1:9/x", headers = { A = "Bearer ${API_TOKEN}" } }',
)


@pytest.fixture
def holder(shell: Shell) -> Iterator[Held]:
    """A live run of the orders, in effect in another process."""
    shell.orders()
    with Project.find().engine() as engine:
        (table,) = Project.find().manifest.pipelines[0].tables
        pins = Pins(table.content_hash, connector=open_source(table).connector)
        run = engine.new_run("other", plan_ref=table.content_hash, table="orders")
        yield engine.hold("table:orders", pins, run=run)


def test_json_is_one_document_with_the_fixed_names(shell: Shell) -> None:
    shell.orders()

    ended = shell("pipeline", "run", "orders", "--json")

    assert ended.code == 0
    assert set(ended.document) == {"fire_id", "state", "runs"}
    assert ended.document["state"] == "completed"
    (run,) = ended.document["runs"]
    assert set(run) == KEYS
    assert (run["status"], run["rows"], run["error"]) == ("success", 2, None)
    assert "opened" in ended.err
    assert "success" in ended.err


def test_what_does_not_land_is_said(shell: Shell) -> None:
    shell.orders()
    shell("pipeline", "run", "orders")

    ended = shell("pipeline", "run", "orders")

    assert "1 row landed" in ended.out
    assert "1 row below the position, not admitted" in ended.out


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


def test_only_a_run_that_recorded_something_promises_a_resume(shell: Shell, tickets: None) -> None:
    shell.write("broken", "")
    resumable = shell("pipeline", "run", "orders")
    shell.orders({"id": 1, "at": None})
    shell.write("contextful.toml", ORDERS.replace('name = "orders"', 'name = "fresh"'))

    afresh = shell("pipeline", "run", "orders")

    assert "next: contextful pipeline run orders --table orders asks only for what is not recorded" in resumable.err
    assert (afresh.code, "next:" in afresh.err) == (1, False)


def test_a_run_id_that_succeeded_is_only_shown_again(shell: Shell) -> None:
    shell.orders()
    first = shell.json("pipeline", "run", "orders", "--run-id", "monday")

    again = shell.json("pipeline", "run", "orders", "--run-id", "monday")

    assert again["runs"] == first["runs"]
    assert len(shell.json("run", "list")["runs"]) == 1


def test_a_run_id_that_failed_is_tried_under_a_replay_id(shell: Shell) -> None:
    shell.orders({"id": 1, "at": None})
    assert shell("pipeline", "run", "orders", "--run-id", "monday").code == 1
    shell.orders({"id": 1, "at": "2026-01-01T00:00:00Z"})

    again = shell.json("pipeline", "run", "orders", "--run-id", "monday")

    assert again["runs"][0]["run_id"] == "monday.replay-1"


def test_a_run_id_out_of_grammar_is_bad_usage(shell: Shell) -> None:
    shell.orders()

    ended = shell("pipeline", "run", "orders", "--run-id", "../up", "--json")

    assert ended.code == 2
    assert ended.error["name"] == "UsageError"
    assert ended.err.startswith("UsageError: ")


def test_a_repeated_idempotency_key_fires_once(shell: Shell) -> None:
    shell.orders()
    first = shell.json("pipeline", "run", "orders", "--idempotency-key", "k")

    again = shell.json("pipeline", "run", "orders", "--idempotency-key", "k")

    assert again == first


def test_every_option_may_come_from_the_environment(shell: Shell) -> None:
    shell.orders()
    shell.set("CONTEXTFUL_JSON", "1")
    shell.set("CONTEXTFUL_PIPELINE_RUN_ID", "from-the-environment")
    shell.set("CONTEXTFUL_MANIFEST", str(shell.folder / "contextful.toml"))

    ended = shell("pipeline", "run", "orders")

    assert ended.document["runs"][0]["run_id"] == "from-the-environment"


def test_a_failed_run_names_its_error_and_exits_1(shell: Shell) -> None:
    shell.orders({"id": 1, "at": None})

    ended = shell("pipeline", "run", "orders", "--json")

    assert ended.code == 1
    assert ended.document["state"] == "failed"
    assert ended.document["runs"][0]["error"]["name"] in ended.err
    assert "orders.at cannot be ordered" in ended.err


def test_one_failing_table_stops_no_other(shell: Shell) -> None:
    shell.orders()
    shell.write("contextful.toml", ORDERS + '\n[[pipeline.table]]\nname = "lost"\npath = "nowhere/*.csv"\n')

    ended = shell("pipeline", "run", "orders", "--run-id", "r", "--json")

    assert ended.code == 1
    statuses = {run["run_id"]: run["status"] for run in ended.document["runs"]}
    assert statuses["r.orders"] == "success"
    assert statuses["r.lost"] == "failed"


def test_an_unknown_pipeline_is_answered_with_those_there_are(shell: Shell) -> None:
    shell.orders()

    ended = shell("pipeline", "run", "order", "--json")

    assert ended.code == 2
    assert ended.err.startswith("PipelineUnknown: the manifest has no pipeline 'order'; did you mean orders?")
    assert ended.error["name"] == "PipelineUnknown"
    assert ended.error["tag"] == "Config"
    assert ended.error["pipeline"] == "order"


def test_an_unknown_table_is_answered_with_those_there_are(shell: Shell) -> None:
    shell.orders()

    ended = shell("pipeline", "run", "orders", "--table", "nope")

    assert ended.code == 2
    assert "TableUnknown: pipeline orders has no table 'nope'; there are: orders" in ended.err


def test_a_missing_secret_stops_a_run_before_anything_is_written(shell: Shell) -> None:
    shell.write("contextful.toml", SECRET)

    ended = shell("pipeline", "run", "orders", "--json")

    assert ended.code == 2
    assert ended.error["name"] == "SecretNotFound"
    assert "API_TOKEN" in ended.err
    assert not (shell.folder / ".contextful").exists()


def test_every_problem_of_a_manifest_is_told_at_once(shell: Shell) -> None:
    shell.write(
        "contextful.toml", ORDERS.replace('"append"', '"x"').replace('kind = "file"', 'kind = "fil"') + "oops = 1\n"
    )

    ended = shell("pipeline", "run", "orders", "--json")

    assert ended.code == 2
    assert ended.error["name"] == "ManifestInvalid"
    assert len(ended.error["problems"]) == 2
    assert all(problem in ended.err for problem in ended.error["problems"])


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


@pytest.mark.clause("run.own.pin-mismatch-recovery", "run.own.pinned-plan-changed")
def test_a_changed_declaration_names_both_ways_on_and_a_rewind_is_one(shell: Shell, slow_third_page: DemoApi) -> None:
    manifest = QUAKES.format(url=slow_third_page.url)
    shell.write("contextful.toml", manifest)
    process = shell.start("pipeline", "run", "quakes")
    assert slow_third_page.slow_page.wait(30)
    process.kill()
    process.wait()
    session.clock.set(SystemClock(31_000))
    shell.write("contextful.toml", manifest.replace('since_param = "updated_after"', 'since_param = "starttime"'))

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
    manifest = QUAKES.format(url=slow_third_page.url)
    shell.write("contextful.toml", manifest)
    process = shell.start("pipeline", "run", "quakes")
    assert slow_third_page.slow_page.wait(30)
    process.kill()
    process.wait()
    session.clock.set(SystemClock(31_000))
    shell.write("contextful.toml", manifest.replace('since_param = "updated_after"', 'since_param = "starttime"'))
    assert shell("pipeline", "run", "quakes").code == 1
    shell.write("contextful.toml", manifest)

    resumed = shell.json("pipeline", "run", "quakes")

    assert (resumed["runs"][0]["status"], resumed["runs"][0]["replayed"]) == ("success", 2)
    assert shell.json("status")["pending"] == []


TICKETS = """\
from pathlib import Path

from engine.errors import Permanent
from engine.shapes import Pull


def tickets(ask):
    if ask.position is None:
        yield Pull(rows=[{"id": 1}], position=1, more=True, skipped=2)
    if Path("broken").exists():
        raise Permanent("the second page is broken")
    yield Pull(rows=[{"id": 2}], position=2, skipped=1)
"""


@pytest.fixture
def tickets(shell: Shell) -> None:
    """A pipeline whose source declines three inputs, two of them on its first page."""
    module = f"tickets_{shell.folder.parent.name}"
    shell.write(f"{module}.py", TICKETS)
    shell.write(
        "contextful.toml",
        ORDERS.replace('kind = "file", path = "orders.jsonl"', f'kind = "python", entry = "{module}:tickets"')
        .replace('incremental = "at"\n', ""),
    )  # fmt: skip


@pytest.mark.clause("run.record.skipped-count")
def test_the_inputs_a_source_declines_are_summed_and_said(shell: Shell, tickets: None) -> None:
    ended = shell("pipeline", "run", "orders", "--run-id", "r")

    assert "3 inputs skipped" in ended.out
    assert (shell.json("run", "show", "r")["skipped"], shell.json("run", "show", "r")["rows"]) == (3, 2)


@pytest.mark.parametrize("verb", ["preview", "run"])
def test_what_a_source_prints_stays_out_of_the_document(shell: Shell, tickets: None, verb: str) -> None:
    module = f"tickets_{shell.folder.parent.name}.py"
    shell.write(module, TICKETS.replace("(ask):\n", "(ask):\n    print('a word from the source')\n"))

    ended = shell("pipeline", verb, "orders", "--json")

    assert ended.document
    assert "a word from the source" in ended.err


@pytest.mark.clause("run.record.skipped-count")
def test_replayed_pulls_count_what_they_skipped_too(shell: Shell, tickets: None) -> None:
    shell.write("broken", "")
    (failed,) = shell("pipeline", "run", "orders", "--json").document["runs"]
    (shell.folder / "broken").unlink()

    (resumed,) = shell.json("pipeline", "run", "orders")["runs"]

    assert (failed["skipped"], failed["rows"], failed["bytes"]) == (2, 0, 0)
    assert (resumed["replayed"], resumed["skipped"], resumed["rows"]) == (1, 3, 2)


def test_a_defect_is_named_as_one_and_shows_no_traceback(shell: Shell) -> None:
    shell.orders()
    shell.monkeypatch.setattr("engine.cli.session.pipeline", lambda *_: 1 / 0)

    ended = shell("pipeline", "run", "orders", "--json")

    assert ended.code == 1
    assert ended.error["name"] == "InternalError"
    assert "a defect of contextful" in ended.err
    assert "Traceback" not in ended.err


def test_a_defect_shows_where_it_is_on_request(shell: Shell) -> None:
    shell.orders()
    shell.set("CONTEXTFUL_DEBUG", "1")
    shell.monkeypatch.setattr("engine.cli.session.pipeline", lambda *_: 1 / 0)

    assert "Traceback" in shell("pipeline", "run", "orders").err


def test_progress_is_told_in_lines_at_most_every_two_seconds(shell: Shell) -> None:
    shell.monkeypatch.setattr("time.monotonic", iter([tick / 2 for tick in range(10_000)]).__next__)
    lines = Lines()
    run = RunRow("r", RunStatus.RUNNING, 0, table="orders")
    landing = Landing(0, None, 0, PullMeta(), replayed=False)
    shell.capture.readouterr()

    lines.opened(run)
    for page in range(20):
        lines.landed(replace(run, batches=page + 1, rows=50 * (page + 1)), landing)
    lines.retrying("pull:20", 1, Transient("no answer"), 400)
    lines.closed(replace(run, batches=20, rows=1000, status=RunStatus.SUCCESS))

    said = shell.capture.readouterr().err.splitlines()
    assert said[0] == "orders: run r opened"
    assert 2 < len(said) < 12, said
    assert said[-1].startswith("orders: run r success: 20 pages, 1,000 rows, 0 B")
    assert said[-1].endswith("1 retry")


def test_a_terminal_shows_a_line_that_moves(shell: Shell) -> None:
    run = RunRow("r", RunStatus.RUNNING, 0, table="orders")
    shell.capture.readouterr()

    with Live() as live:
        live.opened(run)
        live.retrying("pull:0", 1, Transient("no answer"), 400)
        live.landed(replace(run, batches=3, rows=150), Landing(0, None, 0, PullMeta(), replayed=False))
        live.closed(replace(run, batches=3, rows=150, status=RunStatus.SUCCESS))

    assert "3 pages, 150 rows" in " ".join(shell.capture.readouterr().err.split())
