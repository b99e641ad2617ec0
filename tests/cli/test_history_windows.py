"""The windows of the run history as commands give them: their bound, their ceiling, their first line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cli.test_history_commands import ids, run, written

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

NEWEST_FIRST = [f"orders-{number:03}" for number in range(6, -1, -1)]


@pytest.mark.clause("run.record.history-export", "run.record.export-ceiling")
def test_an_export_takes_more_than_a_listing_and_counts_what_it_gives(shell: Shell) -> None:
    written(shell, *(run(number) for number in range(7)))

    head, *rows = map(json.loads, shell("run", "export").out.splitlines())

    assert [row["run_id"] for row in rows] == NEWEST_FIRST
    assert (head["count"], head["window"]["limit"], head["truncated"]) == (7, 500, False)


@pytest.mark.clause("run.record.history-export")
def test_an_export_as_one_document_holds_the_first_line_and_the_runs(shell: Shell) -> None:
    written(shell, *(run(number) for number in range(3)))
    head, *rows = map(json.loads, shell("run", "export", "--limit", "2").out.splitlines())

    assert shell.json("run", "export", "--limit", "2") == head | {"runs": rows}


@pytest.mark.clause("run.record.bound-spelling", "run.record.history-window")
def test_a_bound_cuts_every_listing_and_is_refused_in_another_spelling_at_each(shell: Shell) -> None:
    written(shell, *(run(number) for number in range(7)))
    bound = ("--since", "2026-01-05T00:00:00Z")

    listed = shell("run", "list", *bound)
    exported = shell("run", "export", *bound)

    assert [line.split()[0] for line in listed.out.splitlines()[2:]] == NEWEST_FIRST[:3]
    assert ids(shell.json("run", "list", *bound)) == NEWEST_FIRST[:3]
    assert [json.loads(line)["run_id"] for line in exported.out.splitlines()[1:]] == NEWEST_FIRST[:3]
    for command in ("list", "export"):
        refused = shell("run", command, "--since", "yesterday")
        assert (refused.code, refused.err.partition(":")[0]) == (2, "HistoryBoundSpelling")
