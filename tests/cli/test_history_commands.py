"""Run history from the command line: windows, bounds, truncation, the export."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from engine.clock import Chance
from engine.demo.api import DemoApi, Manners
from engine.export import described, exported
from engine.history import History
from engine.project import Project
from engine.runs import RunRow, Runs
from engine.shapes import Phase, RunStatus
from tests.cli.conftest import QUAKES

if TYPE_CHECKING:
    from tests.cli.conftest import Shell
    from tests.stores import Store

DAY = 86_400_000
FIRST = 1_767_225_600_000
"""2026-01-01T00:00:00Z."""


def written(shell: Shell, *runs: RunRow) -> None:
    """A project whose catalog and history hold `runs`."""
    shell.orders()
    with Project.find() as project:
        project.initialize_if_new()
        for run in runs:
            Runs(project.profile.database).insert(run)
            History(project.profile.objects).append(run, phase=Phase.COMMIT, at=run.started_at)


def run(number: int, *, pipeline: str | None = "orders", **fields: Any) -> RunRow:
    at = FIRST + number * DAY
    return RunRow(f"{pipeline}-{number:03}", RunStatus.SUCCESS, at, pipeline_id=pipeline, ended_at=at + 1, **fields)


def ids(document: Any) -> list[str]:
    return [row["run_id"] for row in document["runs"]]


@pytest.mark.clause("run.record.describe-window", "run.record.history-window", "run.record.truncation-flag")
def test_a_listing_gives_the_five_newest_and_says_that_there_are_more(shell: Shell) -> None:
    written(shell, *(run(n) for n in range(7)))

    document = shell.json("run", "list")

    assert ids(document) == ["orders-006", "orders-005", "orders-004", "orders-003", "orders-002"]
    assert document["truncated"] is True
    assert document["window"] == {"since": None, "limit": 5, "pipelines": []}


@pytest.mark.clause("run.record.truncation-flag", "run.record.history-window")
def test_a_window_that_holds_all_is_not_truncated_and_its_bound_is_inclusive(shell: Shell) -> None:
    written(shell, *(run(n) for n in range(7)))

    document = shell.json("run", "list", "--since", "2026-01-03")

    assert ids(document) == ["orders-006", "orders-005", "orders-004", "orders-003", "orders-002"]
    assert document["truncated"] is False
    assert document["window"]["since"] == "2026-01-03T00:00:00.000Z"


@pytest.mark.clause("run.record.truncation-flag")
def test_an_empty_window_answers_an_empty_list(shell: Shell) -> None:
    written(shell, run(1))

    assert ids(shell.json("run", "list", "--pipeline", "nobody")) == []
    assert ids(shell.json("run", "list", "--since", "2030-01-01T00:00:00Z")) == []
    assert shell("run", "list", "--since", "2030-01-01").code == 0


@pytest.mark.clause("run.record.describe-window")
def test_a_listing_is_clamped_at_500(store: Store) -> None:
    runs = store.here.runs
    for n in range(502):
        runs.insert(run(n))

    window = described(runs, pipelines=(), since=None, limit=9_999)

    assert (len(window.runs), window.limit, window.truncated) == (500, 500, True)


@pytest.mark.clause("run.record.export-ceiling")
def test_an_export_gives_500_and_clamps_at_5000(store: Store) -> None:
    runs = store.here.runs
    for n in range(502):
        runs.insert(run(n))

    assert len(exported(runs, pipelines=(), since=None, limit=None).runs) == 500
    assert exported(runs, pipelines=(), since=None, limit=99_999).limit == 5_000


@pytest.mark.clause("run.record.export-ceiling", "run.record.truncation-flag")
def test_each_pipelines_window_takes_the_full_ceiling_and_the_merge_is_clipped_once(store: Store) -> None:
    runs = store.here.runs
    for n in range(4):
        runs.insert(run(n, pipeline="busy"))
    runs.insert(run(9, pipeline="quiet"))

    window = exported(runs, pipelines=("quiet", "busy"), since=None, limit=4)

    assert [row.run_id for row in window.runs] == ["quiet-009", "busy-003", "busy-002", "busy-001"]
    assert window.truncated


@pytest.mark.clause("run.record.bound-spelling")
@pytest.mark.parametrize(
    "bound", ["yesterday", "2026-01-01T00:00:00", "2026-01-01T00:00:00+01:00", "20260101", "2026-13-01"]
)
@pytest.mark.parametrize("surface", [("run", "list"), ("run", "export")])
def test_a_bound_in_another_spelling_is_refused(shell: Shell, surface: tuple[str, str], bound: str) -> None:
    shell.orders()

    ended = shell(*surface, "--since", bound, "--json")

    assert ended.code == 2
    assert ended.error["name"] == "HistoryBoundSpelling"
    assert ended.error["found"] == bound


@pytest.mark.clause("run.record.history-export")
def test_an_export_is_a_window_line_and_one_run_a_line(shell: Shell) -> None:
    written(shell, *(run(n) for n in range(3)))

    head, *rows = map(json.loads, shell("run", "export", "--limit", "2").out.splitlines())

    assert head == {
        "store": str(shell.folder / ".contextful"),
        "window": {"since": None, "limit": 2, "pipelines": []},
        "count": 2,
        "truncated": True,
    }
    assert [row["run_id"] for row in rows] == ["orders-002", "orders-001"]
    listed = shell.json("run", "list", "--limit", "2")["runs"]
    assert rows == [{name: value for name, value in row.items() if name != "schema_diffs"} for row in listed]


@pytest.mark.clause("run.record.history-export")
def test_an_export_needs_no_corpus(shell: Shell) -> None:
    written(shell, run(1))
    with Project.find() as project:
        shell.monkeypatch.setattr(type(project.profile.objects), "list", None)

    assert shell("run", "export").code == 0


@pytest.mark.clause("run.record.error-cap")
def test_every_surface_masks_and_caps_a_recorded_error(shell: Shell) -> None:
    token = "ghp_" + "a1B2" * 9
    error = {"tag": "Permanent", "name": "Permanent", "message": f"the server said {token} " + "x" * 5000}
    written(shell, run(1, error=error))

    surfaces = [
        shell("run", "list", "--json").out,
        shell("run", "list").out,
        shell("run", "show", "orders-001").out,
        shell("run", "show", "orders-001", "--json").out,
        shell("run", "export").out,
    ]

    assert not any(token in said for said in surfaces)
    shown = json.loads(surfaces[0])["runs"][0]["error"]["message"]
    assert len(shown.encode()) <= 2048
    assert shown.endswith("…")


@pytest.mark.clause("run.record.rebuild-restores-history", "run.record.reserved-table")
def test_a_rebuilt_catalog_lists_every_run_the_store_recorded(shell: Shell) -> None:
    written(shell, run(1), run(2, error={"tag": "Permanent", "name": "Permanent", "message": "no"}))
    before = shell.json("run", "list")
    for file in (shell.folder / ".contextful").glob("state.sqlite*"):
        file.unlink()

    ended = shell("catalog", "rebuild")

    assert ended.code == 0
    assert "recorded work of unfinished runs is gone" in ended.err
    assert shell.json("run", "list") == before


@pytest.mark.clause("run.record.plan-identity", "run.record.columns", "run.record.status-set")
def test_a_run_shows_plan_connector_and_status_as_recorded(shell: Shell) -> None:
    shell.orders()
    shell("pipeline", "run", "orders", "--run-id", "one")

    shown = shell.json("run", "show", "one")

    assert shown["status"] == "success"
    assert len(shown["plan_ref"]) == 64
    assert shown["connector"]["id"] == "file"
    assert (shown["pipeline"], shown["table"], shown["site_id"]) == ("orders", "orders", "laptop")
    assert shown["started_at"].endswith("Z")


@pytest.mark.clause("run.record.reserved-table")
def test_the_record_is_two_rows_a_run_one_at_plan_and_one_at_commit(shell: Shell) -> None:
    shell.orders()
    shell("pipeline", "run", "orders", "--run-id", "one")

    with Project.find() as project:
        names = list(project.profile.objects.list("_runs/"))
        rows = list(History(project.profile.objects).rows())

    assert [name.split("-")[2] for name in names] == ["commit", "plan"]
    assert [(row.run_id, row.status, row.rows) for row in rows] == [("one", RunStatus.SUCCESS, 2)]


@pytest.mark.clause("run.record.plan-identity")
def test_a_record_without_a_plan_decodes_without_one(store: Store) -> None:
    old = RunRow.from_record('{"run_id": "old", "status": "success", "started_at": 1}')

    assert old.plan_ref is None
    assert old.projection()["plan_ref"] is None


@pytest.mark.clause("run.record.row-at-open")
def test_a_run_is_on_record_before_its_first_page_has_come(shell: Shell) -> None:
    with DemoApi(manners=Manners(throttle_at=0, slow_at=1, slow_s=30)) as api:
        shell.write("contextful.toml", QUAKES.format(url=api.url))
        shell.start("pipeline", "run", "quakes", "--run-id", "early")
        assert api.slow_page.wait(30)

        shown = shell.json("run", "show", "early")

    assert (shown["status"], shown["rows"], shown["ended_at"]) == ("running", 0, None)
    assert shown["owner"]["pid"] > 0
    assert shown["owner"]["lease_expires_at"].endswith("Z")


@pytest.mark.clause("run.record.row-at-open")
def test_zero_rows_a_failure_and_no_run_are_three_things(shell: Shell) -> None:
    shell.orders()
    shell.write("orders.jsonl", "")
    shell("pipeline", "run", "orders", "--run-id", "empty")
    shell.write("orders.jsonl", "{broken")
    shell("pipeline", "run", "orders", "--run-id", "broken")

    assert (shell.json("run", "show", "empty")["status"], shell.json("run", "show", "empty")["rows"]) == ("success", 0)
    assert shell.json("run", "show", "broken")["error"]["name"] == "StepFailed"
    ended = shell("run", "show", "nobody", "--json")
    assert (ended.code, ended.error["name"]) == (2, "RunUnknown")


def test_host_runs_are_listed_with_the_others(store: Store) -> None:
    store.here.runs.insert(RunRow(Chance().run_id(), RunStatus.SUCCESS, FIRST, host_scope="job"))

    assert len(exported(store.here.runs, pipelines=(), since=None, limit=None).runs) == 1


@pytest.mark.clause("run.record.schema-diff-home")
def test_listing_and_showing_a_run_tell_its_events_by_run_id(shell: Shell) -> None:
    shell.orders({"id": 1, "at": "2026-01-01T00:00:00Z", "lines": [{"sku": "a"}]})
    assert shell("pipeline", "run", "orders", "--run-id", "r").code == 0

    shown = shell.json("run", "show", "r")
    (listed,) = shell.json("run", "list")["runs"]

    assert shown["schema_diffs"] == listed["schema_diffs"]
    assert [event["path"] for event in shown["schema_diffs"]] == ["lines"]
    assert '"lines"' in shell("run", "show", "r").out
