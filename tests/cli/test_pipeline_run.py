"""One fire from the command line: what it prints, what it refuses, what its exit code says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.conftest import ORDERS
from tests.local_edge import free_ports

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

KEYS = {
    *("run_id", "execution_id", "pipeline", "table", "status", "rows", "bytes", "batches", "skipped", "not_admitted"),
    *("replayed", "started_at", "ended_at", "next_attempt_at", "error"),
}

SECRET = ORDERS.replace(
    'source = { kind = "file", path = "orders.jsonl" }',
    'source = { kind = "http", url = "http://127.0.0.1:9/x", headers = { A = "Bearer ${API_TOKEN}" } }',
)


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


def test_a_source_that_did_not_answer_is_told_with_the_next_step(shell: Shell) -> None:
    nobody = f"http://127.0.0.1:{free_ports(1)[0]}/orders"
    shell.write("contextful.toml", ORDERS.replace(
        'kind = "file", path = "orders.jsonl"', f'kind = "http", url = "{nobody}", retry = {{ attempts = 1 }}'
    ))  # fmt: skip

    ended = shell("pipeline", "run", "orders")

    assert ended.code == 1
    assert "broke off: " in ended.err
    assert ended.err.splitlines()[-1] == (
        "next: contextful pipeline run orders --table orders tries it anew: what was in the way may have passed"
    )


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
