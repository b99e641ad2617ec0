"""Publishing what a run has staged: rows and position by one marker, and only while the attempt holds its owner.

    stage ⟲ ──due──▶ checkpoint 0, 1, … ──▶ stage ⟲ ──▶ final commit
                     │ rows, position          │
                     ▼                         ▼
              position cached,           position cached,
              landed pulls collected     owner retired

A commit's ordinal counts those of the execution, whichever attempt made them; its id counts those of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from engine import cursors
from engine.corpus.commit import Terms, commit
from engine.corpus.marker import Committer
from engine.errors import CommitOvertaken, PrimaryKeyMissing, RunCheckpointIdTooLong, RunStagedBytesExceeded
from engine.pipeline.checkpoints import due, position_addressed
from engine.pipeline.reconcile import caching, own_commits
from engine.shapes import WriteMode

if TYPE_CHECKING:
    from engine.corpus.marker import Marker
    from engine.execution.held import Held
    from engine.host import Engine
    from engine.pipeline.declaration import Table
    from engine.pipeline.source import Source
    from engine.pipeline.stage import Stage
    from engine.pipeline.walk import Landing

ID_LIMIT: Final = 128
"""Characters of the longest run id, and so of the longest commit id."""


@dataclass(slots=True)
class Publication:
    """The commits of one run of `table`, made of what `stage` holds.

    `base` is the newest marker known, `pulls` how many pulls of the execution have landed; `rows` and `bytes` are what
    this run's commits carried (run.own.checkpoint-landed). What is published `whole` has no checkpoint, since no
    position says where it would go on (run.own.checkpoint-scope).
    """

    engine: Engine
    table: Table
    source: Source
    held: Held
    stage: Stage
    base: Marker | None
    pulls: int = 0
    rows: int = 0
    bytes: int = 0
    whole: bool = False
    _ordinal: int = 0
    _commits: int = 0
    _earliest: int = 0

    def resume(self) -> None:
        """Go on where the earlier commits of the execution ended, if an earlier attempt or life made any."""
        earlier = own_commits(self.engine, self.table.name, self.base, held=self.held) if self.held.resumed else []
        self._earliest = earlier[0].seq if earlier else 0
        for marker in earlier:
            if marker.by.run_id == self.held.attempt.run_id:
                self._count(marker)
        if earlier and not earlier[-1].by.final:
            self.pulls, self._ordinal = earlier[-1].by.pulls, earlier[-1].by.ordinal + 1

    @property
    def committed(self) -> bool:
        """Whether the execution has published anything, by this attempt or an earlier one."""
        return self._ordinal > 0

    @property
    def landed(self) -> dict[str, Any]:
        """What the run's row says of its commits: a failed one's checkpoints stay (run.own.checkpoint-landed)."""
        return {"rows": self.rows, "bytes": self.bytes}

    def make_room(self, landing: Landing, *, size: int) -> None:
        """Commit what is staged where `landing`, of `size` bytes, makes a checkpoint due.

        Raise `RunCheckpointIdTooLong` before anything is committed, `RunStagedBytesExceeded` where no checkpoint makes
        room, and what a commit raises.
        """
        limits, lowest = self.engine.settings.limits, landing.meta.clocks[0] if landing.meta.clocks else None
        reached = due(limits, staged=self.stage.size, following=size, frontier=landing.before, lowest=lowest)
        if reached and not self.whole and position_addressed(self.table, self.source):
            self._checkpoint(landing)
        staged = self.stage.size + size
        if staged > limits.staged:
            pipeline = self.table.pipeline_id
            raise RunStagedBytesExceeded(table=self.table.name, pipeline=pipeline, staged=staged, limit=limits.staged)

    def publish(self, *, position: Any, pulls: int) -> Marker | None:
        """Commit the stage under `position` for good; None where there is nothing (run.advance.commit-with-rows).

        Raise `ExecutionSuperseded` when the attempt no longer holds its owner, `StoreSchemaIncompatible` when the
        stage no longer merges with the table, `CommitOvertaken` when another attempt has committed other pulls,
        `PositionOvertaken` when another state's engine has moved a position that has no order.
        """
        terms = self._terms(position, final=True, pulls=pulls)
        if not self._publishes(terms):
            return None
        return self._commit(terms)

    def _checkpoint(self, landing: Landing) -> None:
        """Publish what is staged under the position `landing` was asked at (run.own.checkpoint-commit)."""
        self._refuse_long_id()
        position = landing.asked
        if self.table.incremental is not None:
            position = cursors.watermark(self.table.incremental, landing.before)
        marker = self._commit(self._terms(position, final=False, pulls=landing.number))
        cached = caching(self.table.name, marker)
        self.engine.owners.checkpoint(self.held.attempt, landed=marker.by.pulls, also=(cached,))
        self.stage.landed(marker.schema)

    def _refuse_keyless_rows(self) -> None:
        """Raise `PrimaryKeyMissing` where a key column is in no row that is committed or staged."""
        names = dict.fromkeys((*(self.base.schema.names if self.base else ()), *self.stage.schema.names))
        for column in self.table.primary_key if self.stage.rows else ():
            if column not in names:
                known = ", ".join(names) or "no column"
                raise PrimaryKeyMissing(table=self.table.name, column=column, columns=known)

    def _refuse_long_id(self) -> None:
        following = self._commit_id(self._commits + 1)
        if len(following) > ID_LIMIT:
            raise RunCheckpointIdTooLong(run_id=self.held.attempt.run_id, next_id=following, limit=ID_LIMIT)

    def _commit(self, terms: Terms) -> Marker:
        self._refuse_keyless_rows()
        done = commit(
            self.engine.profile.objects,
            terms,
            stage=self.stage,
            now=self._now,
            check_owner=lambda: self.engine.owners.check(self.held.attempt),
            hint=self._earliest or (self.base.seq if self.base else 0),
        )
        ours, theirs = terms.by, done.marker.by
        alike = (ours.final, ours.pulls) == (theirs.final, theirs.pulls) or (ours.final and theirs.final)
        if not done.won and not alike:
            raise CommitOvertaken(table=self.table.name, run_id=theirs.run_id)
        self._count(done.marker)
        self.base, self.pulls, self._ordinal = done.marker, theirs.pulls, theirs.ordinal + 1
        return done.marker

    def _now(self) -> int:
        """The instant, and never one before the execution opened: its commits are looked for from there on.

        A clock that is set back between an open and a commit would hide the commit from whoever resumes.
        """
        return max(self.engine.profile.database.now(), self.held.opened_at)

    def _count(self, marker: Marker) -> None:
        self._commits += 1
        self.rows += marker.rows
        self.bytes += marker.size

    def _publishes(self, terms: Terms) -> bool:
        """Whether there is anything to commit: rows, a replacement, or a position that moved."""
        stored = self.base.position if self.base else None
        # A watermark that no row has reached yet takes nothing back.
        moved = terms.position != stored and (terms.position is not None or self.table.incremental is None)
        return bool(self.stage.parts) or terms.mode is WriteMode.REPLACE or moved

    def _commit_id(self, number: int) -> str:
        """The id of the run's commit `number`: its own, then with the ordinal behind it (run.own.checkpoint-run-id)."""
        run_id = self.held.attempt.run_id
        return f"{run_id}.{number:06}" if number else run_id

    def _terms(self, position: Any, *, final: bool, pulls: int) -> Terms:
        attempt = self.held.attempt
        by = Committer(
            run_id=attempt.run_id,
            commit_id=self._commit_id(self._commits),
            execution_id=attempt.execution_id,
            site_id=self.engine.settings.site_id,
            ordinal=self._ordinal,
            final=final,
            pulls=pulls,
        )
        return Terms(
            self.table.name,
            by,
            cursors.kind_of(incremental=self.table.incremental, declared=self.source.cursor_kind),
            position=position,
            mode=self.table.write_mode,
            primary_key=self.table.primary_key,
            higher=cursors.later_position,
            began=self.base.position if self.base else None,
        )
