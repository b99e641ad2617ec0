"""Ended runs on their way from the catalog into the run history: each arrives, whatever dies in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.runs import run_row
from engine.shapes import Phase
from engine.sql import call

if TYPE_CHECKING:
    from engine.history import History
    from engine.ports import Database
    from engine.runs import RunRow


class Archive:
    """Appends each ended run to the reserved table and notes that it did (run.record.reserved-table).

    A death between the two appends the row once more at the next start: the latest of a phase wins, so the history
    tells the same story twice and never a different one.
    """

    def __init__(self, database: Database, history: History) -> None:
        self._db = database
        self._history = history

    def carry(self, row: RunRow) -> None:
        """Append a run that has ended."""
        self._history.append(row, phase=Phase.COMMIT, at=row.ended_at or row.started_at)
        self._db.run(call("note_appended", run_id=row.run_id))

    def repair(self) -> None:
        """Append what a death left in the catalog alone."""
        for row in self._db.run(call("unappended_runs"))[0]:
            self.carry(run_row(row))
