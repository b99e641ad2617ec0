"""An export whose store loses an answer, whichever it is and whether or not it was applied, publishes each row once."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from engine.errors import ContextfulError, StorageBindingUnavailable
from engine.local.sqlite import SqliteDatabase
from engine.shapes import RunStatus
from tests.scale import scale
from tests.stores import LEASE

if TYPE_CHECKING:
    from engine.ports import Call, Rows
    from tests.exports.publishing import Publishing
    from tests.exports.receiver import Receiver


class Losing:
    """Counts the writes of every engine and loses the answer of one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.writes = 0
        self.lost: int | None = None
        self.applies = True
        run = SqliteDatabase.run

        def losing(database: SqliteDatabase, *calls: Call) -> list[Rows]:
            if all(each.statement.reads for each in calls):
                return run(database, *calls)
            self.writes += 1
            if self.writes != self.lost:
                return run(database, *calls)
            if self.applies:
                run(database, *calls)
            raise StorageBindingUnavailable(place="here", reason="the answer was dropped", applied="unknown")

        monkeypatch.setattr(SqliteDatabase, "run", losing)


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> Losing:
    return Losing(monkeypatch)


def writes_of_a_run(publishing: Publishing, losing: Losing) -> int:
    """How many writes an export of one more row takes."""
    engine = publishing.engine()
    losing.writes = 0
    publishing.run(engine)
    return losing.writes


@pytest.mark.clause("run.journal.d1-transport", "run.own.retirement")
@pytest.mark.parametrize("applies", [True, False])
def test_whichever_answer_is_lost_each_row_is_published_once(
    publishing: Publishing, receiver: Receiver, losing: Losing, applies: bool
) -> None:
    publishing.land(1)
    count = writes_of_a_run(publishing, losing)
    assert count > 8
    expected = [1]

    for lost in range(1, count + 1, scale(short=2, full=1)):
        publishing.land(first := len(expected) + 1)
        expected.append(first)
        engine = publishing.engine()
        losing.writes, losing.lost, losing.applies = 0, lost, applies
        with suppress(ContextfulError):
            publishing.run(engine)
        losing.lost = None
        gone(engine, publishing)

        ended = publishing.run()

        assert ended.run.status is RunStatus.SUCCESS, lost
        assert receiver.ids == expected, lost
        assert (publishing.owner, publishing.outbox, publishing.guards) == (None, [], []), lost


def gone(engine: Any, publishing: Publishing) -> None:
    """The engine's process ends, and its lease runs out."""
    engine.keeper.stop()
    engine.leases.exit()
    publishing.store.clock.advance(LEASE)
