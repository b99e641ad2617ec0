"""The tables of states, walked against the statements that move the columns: every pair, allowed or not."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from engine.fires import FIRE, Fires
from engine.local.sqlite import SqliteDatabase
from engine.ports import Call, Statement
from engine.runs import RUN, RunRow, Runs, closing, inserting, resuming
from engine.shapes import FireState, RunStatus
from engine.sql import TABLES, call, schema
from tests.clocks import SettableClock

MOVES = [pytest.param(*pair, id=f"{pair[0]} to {pair[1]}") for pair in product(RunStatus, RunStatus)]
FIRE_MOVES = [pytest.param(*pair, id=f"{pair[0]} to {pair[1]}") for pair in product(FireState, FireState)]


@pytest.fixture
def database():
    database = SqliteDatabase(Path(":memory:"), clock=SettableClock())
    database.run(*schema(*TABLES))
    yield database
    database.close()


@pytest.mark.clause("run.record.status-set")
@pytest.mark.parametrize(("status", "target"), MOVES)
def test_closing_moves_a_run_only_where_the_table_says_so(database, status, target):
    database.run(inserting(RunRow("r", status, 0)))

    database.run(closing(RunRow("r", target, 0)))

    # To open a run and to reap one are other statements' business.
    closes = target in RUN[status] - {RunStatus.RUNNING, RunStatus.PARTIAL_FAILURE}
    assert status_of(database) is (target if closes else status)


@pytest.mark.clause("run.record.status-set", "run.retry.waiting-state")
@pytest.mark.parametrize("status", RunStatus)
def test_resuming_moves_a_waiting_run_whose_owner_is_held_and_no_other(database, status):
    database.run(inserting(RunRow("r", status, 0)))
    database.run(inserting(RunRow("of-another", RunStatus.WAITING, 0)))
    pinned = {"scope": "s", "pins": "{}", "plan_ref": "p", "input_hash": None}
    database.run(call("open_owner", **pinned, execution_id="x", run_id="r", holder="h"))

    (moved,) = database.run(resuming(RunRow("anew", RunStatus.RUNNING, 0), scope="s", holder="h"))

    assert moved == [("r",)] * (status is RunStatus.WAITING)
    assert status_of(database) is (RunStatus.RUNNING if moved else status)
    assert not moved or RunStatus.RUNNING in RUN[status]


@pytest.mark.clause("run.record.status-set", "run.record.orphan-reap")
@pytest.mark.parametrize("status", RunStatus)
def test_reaping_moves_a_running_run_and_no_other(database, status):
    database.run(inserting(RunRow("r", status, 0)))

    reaped = Runs(database).reap()

    moves = status is RunStatus.RUNNING
    assert [row.status for row in reaped] == [RunStatus.PARTIAL_FAILURE] * moves
    assert status_of(database) is (RunStatus.PARTIAL_FAILURE if moves else status)
    assert not moves or RunStatus.PARTIAL_FAILURE in RUN[status]


@pytest.mark.clause("run.record.status-set", "run.record.rebuild-restores-history")
@pytest.mark.parametrize(("status", "target"), MOVES)
def test_restoring_history_moves_a_run_only_along_the_table(database, status, target):
    database.run(inserting(RunRow("r", status, 0)))

    Runs(database).restore(RunRow("r", target, 0))

    assert status_of(database) is (target if target in reachable(status) else status)


@pytest.mark.clause("run.record.status-set")
@pytest.mark.parametrize("status", RunStatus)
def test_the_terminal_statuses_are_those_the_table_leads_nowhere_from(status):
    assert status.terminal is (not RUN[status])


@pytest.mark.parametrize(("state", "target"), FIRE_MOVES)
def test_a_fire_moves_only_where_the_table_says_so(database, state, target):
    fires = Fires(database)
    put(database, state)

    if target in FIRE[state]:
        fires._move("f", state, target)
        assert fires.read("f").state is target
        return

    with pytest.raises(ValueError, match=f"is {state} does not become {target}"):
        fires._move("f", state, target)
    assert fires.read("f").state is state


@pytest.mark.parametrize(("state", "found"), FIRE_MOVES)
def test_a_fire_that_is_elsewhere_than_its_mover_saw_stays(database, state, found):
    fires = Fires(database)
    put(database, found)

    for target in FIRE[state] if state is not found else ():
        fires._move("f", state, target)

    assert fires.read("f").state is found


@pytest.mark.parametrize("state", FireState)
def test_an_engine_begins_a_requested_fire_and_takes_up_a_running_one(database, state):
    fires = Fires(database)
    put(database, state)

    begun = fires.begin("f", holder="h")

    assert begun is (state in {FireState.REQUESTED, FireState.RUNNING})
    assert fires.read("f").state is (FireState.RUNNING if begun else state)


def status_of(database: SqliteDatabase) -> RunStatus:
    row = Runs(database).get("r")
    assert row is not None
    return row.status


def reachable(status: RunStatus) -> set[RunStatus]:
    """The statuses the table leads to, in however many steps; the history between two rows may not be known."""
    found: set[RunStatus] = set()
    ahead = [status]
    while ahead:
        following = RUN[ahead.pop()] - found
        found |= following
        ahead.extend(following)
    return found


def put(database: SqliteDatabase, state: FireState) -> None:
    """A fire in `state`, however it came there."""
    text = "INSERT INTO fires (fire_id, pipeline_id, state, requested_at) VALUES ('f', 'p', :state, 0)"
    database.run(Call(Statement("put_fire", text, ("state",), reads=False, durable=False), {"state": state}))
