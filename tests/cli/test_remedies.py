"""The next step that an error names leads on, and speaks of what the user has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Ended, Shell


DAY = ["--from", "2026-01-01", "--to", "2026-01-02", "--every", "1d"]


def rows(shell: Shell, *values: object) -> None:
    """An orders file, each row later than the one before it."""
    told = [{"id": n, "at": f"2026-01-0{n + 1}T00:00:00Z", "v": value} for n, value in enumerate(values)]
    shell.write("orders.jsonl", "".join(json.dumps(row) + "\n" for row in told))


def test_a_column_that_changed_its_type_is_declared_and_read_anew(shell: Shell) -> None:
    shell.orders()
    rows(shell, 1)
    assert shell("pipeline", "run", "orders").code == 0
    rows(shell, 1, "two")

    refused = shell("pipeline", "run", "orders")
    manifest = (shell.folder / "contextful.toml").read_text()
    shell.write("contextful.toml", f'{manifest}columns = {{ v = {{ type = "string" }} }}\n')

    assert refused.code == 1
    assert 'declare in columns.v.type what takes every value, such as "string"' in refused.err
    assert "contextful table drop orders" in refused.err
    assert shell("table", "drop", "orders", "--yes").code == 0
    assert shell("pipeline", "run", "orders").code == 0
    assert shell.json("read", "SELECT v FROM orders ORDER BY id")["rows"] == [["1"], ["two"]]


def test_a_broken_file_is_not_called_the_manifests_fault(shell: Shell) -> None:
    shell.orders()
    shell.write("orders.jsonl", '{"id": 1\n')

    ended = shell("pipeline", "run", "orders")

    assert ended.code == 1
    assert "mend the file" in ended.err
    assert "paginate" not in ended.err


def changing(shell: Shell, *command: str) -> tuple[Ended, Ended]:
    """How `command` ends over a file that breaks behind its first pull, and then over one written anew."""
    shell.orders()
    told = [json.dumps({"id": n, "at": "2026-01-01T00:00:00Z"}) for n in range(10_001)]
    shell.write("orders.jsonl", "\n".join([*told, "broken"]))
    broken = shell(*command)
    shell.write("orders.jsonl", "\n".join(reversed(told)))
    return broken, shell(*command)


def test_a_changed_file_is_put_back_or_given_up_and_not_simply_run_again(shell: Shell) -> None:
    resumable, ended = changing(shell, "pipeline", "run", "orders")

    assert "next: contextful pipeline run orders" in resumable.err
    assert (ended.code, "next:" in ended.err) == (1, False)
    assert ended.err.rstrip().endswith(
        "put back what was read, or have everything read again: contextful run rewind X --reason TEXT --force, X as "
        "contextful status names it; where none is pending, contextful pipeline reset orders --table orders"
    )
    (execution,) = [pending["execution_id"] for pending in shell.json("status")["pending"]]
    error = shell("pipeline", "run", "orders", "--json").document["runs"][0]["error"]
    assert error["message"].endswith(error["remedy"])
    assert shell("run", "rewind", execution, "--reason", "another file", "--force").code == 0
    assert shell("pipeline", "run", "orders").code == 0


def test_a_backfill_over_a_changed_file_does_not_say_to_repeat_it(shell: Shell) -> None:
    resumable, ended = changing(shell, "pipeline", "backfill", "orders", *DAY)

    assert "next: the same command goes on" in resumable.err
    assert "orders.jsonl has changed" in ended.err
    assert (ended.code, "next:" in ended.err) == (1, False)


def test_a_source_that_ends_the_process_fails_its_run_and_holds_nothing(shell: Shell) -> None:
    shell.orders()
    manifest = (shell.folder / "contextful.toml").read_text()
    shell.write("contextful.toml", manifest.replace('kind = "file", path = "orders.jsonl"',
                                                    'kind = "python", entry = "leaving:orders"'))  # fmt: skip
    shell.write("leaving.py", "import sys\n\ndef orders(ask):\n    sys.exit(3)\n    yield\n")

    ended = shell.script("pipeline", "run", "orders")

    assert ended.code == 1
    assert "leaving:orders: SystemExit: 3 (" in ended.err
    assert shell.json("status") == {"pending": []}
