"""The run history read as a table: `SELECT … FROM _runs`, at any instant."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from engine import folds
from engine.clock import instant
from engine.corpus.read import ReadFace
from engine.errors import ReadRefused, StorageUnusable
from engine.history import History
from engine.inputs import InputBounds
from engine.runs import RunRow, Runs
from engine.shapes import Phase, RunStatus
from tests.clocks import START

if TYPE_CHECKING:
    from engine.corpus.read import Answer
    from tests.stores import Store

STATUSES = "SELECT run_id, phase, status FROM _runs ORDER BY run_id, phase DESC"


def read(store: Store, statement: str, *, as_of: int | None = None) -> Answer:
    return ReadFace(store.here.profile.objects).read(statement, as_of=as_of)


def append(store: Store, row: RunRow, *, at: int) -> None:
    History(store.here.profile.objects).append(row, phase=row.phase, at=at)


@pytest.mark.clause("run.record.reserved-table", "run.record.time-travel")
def test_a_read_has_the_latest_row_of_each_run_and_phase(store: Store) -> None:
    for at, status in ((1, RunStatus.RUNNING), (5, RunStatus.WAITING), (9, RunStatus.SUCCESS)):
        append(store, RunRow("r", status, START), at=START + at)

    assert read(store, STATUSES).rows == [("r", "plan", "waiting"), ("r", "commit", "success")]


@pytest.mark.clause("run.record.time-travel")
@pytest.mark.parametrize("folded", [True, False])
def test_one_bound_rewinds_the_history_with_every_other_table(
    store: Store, monkeypatch: pytest.MonkeyPatch, folded: bool
) -> None:
    monkeypatch.setattr(folds, "APART", 2 if folded else 100)
    for at, status in ((1, RunStatus.RUNNING), (5, RunStatus.WAITING), (9, RunStatus.SUCCESS)):
        append(store, RunRow("r", status, START), at=START + at)

    assert read(store, STATUSES, as_of=START).rows == []
    assert read(store, STATUSES, as_of=START + 4).rows == [("r", "plan", "running")]
    assert read(store, STATUSES, as_of=START + 5).rows == [("r", "plan", "waiting")]
    assert len(read(store, STATUSES, as_of=START + 9).rows) == 2


@pytest.mark.clause("run.record.columns", "run.record.reserved-table")
def test_instants_have_a_zone_counts_are_numbers_and_nested_values_are_json(store: Store) -> None:
    bounds = InputBounds(as_of=START, snapshots={"orders": "r-1"}, rows=3)
    error = {"tag": "Permanent", "name": "Permanent", "message": "no\ud800"}
    row = RunRow("r", RunStatus.FAILED, START, ended_at=START + 5, rows=7, table="orders", error=error, input=bounds)
    append(store, row, at=START + 5)

    answer = read(store, "SELECT started_at, rows, \"table\", error ->> 'name', input FROM _runs WHERE rows > 6")

    ((started, rows, table, name, read_bounds),) = answer.rows
    assert started == datetime.fromtimestamp(START / 1000, UTC)
    assert (rows, table, name) == (7, "orders", "Permanent")
    assert json.loads(read_bounds) == {
        "as_of": instant(START), "available_as_of": None, "origin": None, "rows": 3, "snapshots": {"orders": "r-1"},
        "sweep_id": None,
    }  # fmt: skip
    assert next(History(store.here.profile.objects).rows()).input == bounds


@pytest.mark.clause("run.record.error-cap")
def test_a_recorded_error_is_masked_and_capped_here_too(store: Store) -> None:
    secret = "AKIA" + "ABCDEFGHIJKLMNOP"
    error = {"tag": "Permanent", "name": "Permanent", "message": f"{secret} {'x' * 5_000}"}
    append(store, RunRow("r", RunStatus.FAILED, START, ended_at=START, error=error), at=START)

    ((message,),) = read(store, "SELECT error ->> 'message' FROM _runs").rows

    assert secret not in message
    assert len(message.encode()) <= 2_048


def test_a_store_without_runs_has_the_table_and_a_wrong_column_is_answered_with_those_there_are(store: Store) -> None:
    assert read(store, "SELECT * FROM _RUNS").rows == []

    with pytest.raises(ReadRefused, match=r"did you mean .*run_id"):
        read(store, "SELECT run_idd FROM _runs")


def test_a_statements_own_runs_hide_the_table_and_may_read_it(store: Store) -> None:
    append(store, RunRow("r", RunStatus.SUCCESS, START, ended_at=START), at=START)

    rows = read(store, "WITH _runs AS (SELECT 1 AS one) SELECT one FROM _runs").rows

    assert rows == [(1,)]


@pytest.mark.clause("run.record.reserved-table", "run.record.status-set")
@pytest.mark.parametrize("status", list(RunStatus))
def test_a_row_says_which_of_its_runs_two_it_is(status: RunStatus) -> None:
    row = RunRow("r", status, START)
    recorded: dict[str, Any] = json.loads(row.record)

    phase = Phase.COMMIT if status.terminal else Phase.PLAN
    assert row.phase == recorded["phase"] == row.projection()["phase"] == phase
    assert RunRow.from_record(row.record) == row


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"run_id": "r"}', b"\xff"])
def test_a_row_that_is_none_is_named_with_its_object_and_no_defect(store: Store, damage: bytes) -> None:
    append(store, RunRow("r", RunStatus.SUCCESS, START), at=START)
    objects = store.here.profile.objects
    (name,) = objects.list("_runs/")
    objects.delete([name])
    objects.create(name, damage)

    with pytest.raises(StorageUnusable, match=f"{name}: it is no run row .* remove it"):
        History(objects).rebuild(Runs(store.here.profile.database))
