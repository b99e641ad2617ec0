"""Publishing what a run has staged: rows and position by one marker, and only while the attempt holds its owner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from engine import cursors
from engine.corpus.commit import Terms, commit
from engine.corpus.marker import Committer
from engine.shapes import WriteMode

if TYPE_CHECKING:
    from engine.corpus.commit import Committed
    from engine.corpus.marker import Marker
    from engine.execution.held import Held
    from engine.host import Engine
    from engine.pipeline.declaration import Table
    from engine.pipeline.stage import Stage
    from engine.shapes import CursorKind


@dataclass(frozen=True, slots=True)
class Publication:
    """The commits of one run of `table`; `base` is the newest marker when the run began."""

    engine: Engine
    table: Table
    kind: CursorKind
    held: Held
    base: Marker | None

    def publish(self, stage: Stage, *, position: Any) -> Committed | None:
        """Commit the stage under `position`; None where there is nothing to commit (run.advance.commit-with-rows).

        Raise `ExecutionSuperseded` when the attempt no longer holds its owner, `StoreSchemaIncompatible` when the
        stage no longer merges with the table.
        """
        terms = self._terms(position)
        if not self._publishes(stage, terms):
            return None
        return commit(
            self.engine.profile.objects,
            terms,
            stage=stage,
            now=self.engine.profile.database.now,
            check_owner=lambda: self.engine.owners.check(self.held.attempt),
            hint=self.base.seq if self.base else 0,
        )

    def _publishes(self, stage: Stage, terms: Terms) -> bool:
        """Whether there is anything to commit: rows, a replacement, or a position that moved."""
        stored = self.base.position if self.base else None
        # A watermark that no row has reached yet takes nothing back.
        moved = terms.position != stored and (terms.position is not None or self.table.incremental is None)
        return bool(stage.parts) or terms.mode is WriteMode.REPLACE or moved

    def _terms(self, position: Any) -> Terms:
        attempt = self.held.attempt
        by = Committer(
            run_id=attempt.run_id,
            commit_id=attempt.run_id,
            execution_id=attempt.execution_id,
            site_id=self.engine.settings.site_id,
        )
        return Terms(
            self.table.name,
            by,
            self.kind,
            position=position,
            mode=self.table.write_mode,
            primary_key=self.table.primary_key,
            higher=cursors.later_position,
        )
