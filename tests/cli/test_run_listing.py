"""What `run list` says of runs that were turned away: once, however often it happened."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from engine.errors import ExecutionLive, ExecutionPinMismatch
from engine.runs import RunRow
from engine.shapes import RunStatus
from tests.cli.test_history_commands import DAY, FIRST, ids, run, written

if TYPE_CHECKING:
    from tests.cli.conftest import Ended, Shell


def began(number: int) -> RunRow:
    return replace(run(number), table="orders")


def turned_away(number: int, *, pipeline: str = "orders") -> RunRow:
    at = FIRST + number * DAY
    live = ExecutionLive(scope=f"table:{pipeline}", attempt="orders-000", lease_until=at)
    row = RunRow(f"{pipeline}-{number:03}", RunStatus.RUNNING, at, pipeline_id=pipeline, table=pipeline)
    return row.ended(RunStatus.FAILED, at=at, failure=live)


def lines(ended: Ended) -> list[str]:
    return [line.split()[0] for line in ended.out.splitlines()[2:]]


@pytest.mark.clause("run.own.live-owner", "run.record.describe-window")
def test_runs_that_a_live_one_turned_away_share_a_line_and_hide_nothing(shell: Shell) -> None:
    written(shell, began(0), *(turned_away(n) for n in range(1, 9)), began(9), *(turned_away(n) for n in range(10, 13)))

    ended = shell("run", "list")

    assert lines(ended) == ["orders-012", "orders-009", "orders-008", "orders-000"]
    assert "3 times: ExecutionLive" in ended.out
    assert "8 times: ExecutionLive" in ended.out
    assert "there are more" not in ended.err
    assert ids(shell.json("run", "list")) == [f"orders-{n:03}" for n in (12, 11, 10, 9, 8)]


@pytest.mark.clause("run.own.live-owner")
def test_scopes_that_are_turned_away_by_turns_have_a_line_each(shell: Shell) -> None:
    written(shell, *(turned_away(n, pipeline=("orders", "quakes")[n % 2]) for n in range(8)))

    assert lines(shell("run", "list")) == ["quakes-007", "orders-006"]


@pytest.mark.clause("run.own.pinned-plan-changed")
def test_a_refusal_that_no_wait_ends_keeps_a_line_of_its_own(shell: Shell) -> None:
    refusal = ExecutionPinMismatch(scope="table:orders", execution_id="x", pinned='{"a":1}', asked='{"a":2}')
    written(shell, *(replace(began(n), status=RunStatus.RUNNING).ended(RunStatus.FAILED, at=FIRST, failure=refusal)
                     for n in range(3)))  # fmt: skip

    assert lines(shell("run", "list")) == ["orders-002", "orders-001", "orders-000"]


@pytest.mark.clause("run.record.truncation-flag")
def test_lines_past_the_ceiling_are_said_to_be_there(shell: Shell) -> None:
    written(shell, *(began(n) for n in range(3)), *(turned_away(n) for n in range(3, 6)))

    ended = shell("run", "list", "--limit", "3")

    assert lines(ended) == ["orders-005", "orders-002", "orders-001"]
    assert "there are more" in ended.err
