"""Run rows: what one attempt was, and where it stands.

The status moves as `RUN` says and no statement moves it otherwise. The catalog's row is a cache of the reserved table
`_runs` (engine.history); its lease and a request to stop it are machine state that the row joins when it is read.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from engine.clock import instant
from engine.inputs import InputBounds
from engine.secrets import capped
from engine.shapes import Connector, FailureTag, Phase, RunStatus, canonical_json
from engine.sql import call
from engine.stops import Stop

if TYPE_CHECKING:
    from engine.errors import ContextfulError
    from engine.ports import Call, Database, Row

RUN: Final[dict[RunStatus, frozenset[RunStatus]]] = {
    RunStatus.PENDING: frozenset({RunStatus.RUNNING}),
    RunStatus.RUNNING: frozenset(
        {RunStatus.WAITING, RunStatus.SUCCESS, RunStatus.PARTIAL_FAILURE, RunStatus.FAILED, RunStatus.CANCELED}
    ),
    RunStatus.WAITING: frozenset({RunStatus.RUNNING, RunStatus.CANCELED}),
    RunStatus.SUCCESS: frozenset(),
    RunStatus.PARTIAL_FAILURE: frozenset(),
    RunStatus.FAILED: frozenset(),
    RunStatus.CANCELED: frozenset(),
}
"""Where each status may go (run.record.status-set). Only orphan-reap writes `partial_failure`."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Who holds an attempt, and until when."""

    pid: int
    boot_id: str
    lease_expires_at: int


@dataclass(frozen=True, slots=True)
class RunRow:
    """One attempt at one table, chunk, job or host scope (run.record.columns). Instants are milliseconds.

    `chunk` is the window of history that a chunk's run is for. `rows` and `bytes` count what landed at the
    destination, `skipped` inputs the source declined to land, `not_admitted` rows below the position, `replayed`
    pulls answered by the journal, `masked` secrets kept out of it.
    `error` has a `remedy` where a run that goes on from what is recorded fails again until that is done.
    `input` are the bounds a store-driven run read under (run.record.sweep-bounds).
    """

    run_id: str
    status: RunStatus
    started_at: int
    execution_id: str | None = None
    fire_id: str | None = None
    pipeline_id: str | None = None
    table: str | None = None
    chunk: str | None = None
    host_scope: str | None = None
    plan_ref: str | None = None
    site_id: str | None = None
    ended_at: int | None = None
    next_attempt_at: int | None = None
    rows: int = 0
    bytes: int = 0
    batches: int = 0
    skipped: int = 0
    not_admitted: int = 0
    replayed: int = 0
    masked: int = 0
    error: dict[str, str] | None = None
    failed_branches: tuple[dict[str, str], ...] = ()
    bound_hits: tuple[dict[str, Any], ...] = ()
    stop: dict[str, Any] | None = None
    connector: Connector | None = None
    input: InputBounds | None = None
    reason: str | None = None
    trace_id: str | None = None
    owner: Lease | None = field(default=None, compare=False)

    @property
    def phase(self) -> Phase:
        """Which of the run's two rows this is: the one at its plan until it has ended."""
        return Phase.COMMIT if self.status.terminal else Phase.PLAN

    def ended(self, status: RunStatus, *, at: int, failure: ContextfulError | None = None, **counts: Any) -> RunRow:
        """Return the row as it stands once the attempt has ended."""
        return replace(self, status=status, ended_at=at, next_attempt_at=None, error=_error(failure), **counts)

    def waiting(self, until: int, *, failure: ContextfulError) -> RunRow:
        """Return the row as it stands while the attempt waits: neither refused nor failed (run.retry.waiting-state)."""
        return replace(self, status=RunStatus.WAITING, next_attempt_at=until, error=_error(failure))

    @property
    def turned_away(self) -> bool:
        """Whether it never began, as what it asked for was held at that moment (run.own.live-owner)."""
        tag = self.error["tag"] if self.error else None
        return self.status is RunStatus.FAILED and self.execution_id is None and tag == FailureTag.TRANSIENT

    @property
    def record(self) -> str:
        """The row as canonical JSON, its lease left out: machine state is joined, never recorded."""
        fields = asdict(self)
        del fields["owner"]
        return canonical_json(fields | {"phase": self.phase})

    @classmethod
    def from_record(
        cls, text: str, *, status: str | None = None, execution_id: str | None = None, owner: Lease | None = None
    ) -> RunRow:
        """Decode a recorded row; fields it lacks are at their defaults (run.record.plan-identity).

        A row recorded at open does not know its execution yet: the column does. One that is at work again waits no
        longer, whatever it recorded when it began to.
        """
        fields = json.loads(text)
        if status == RunStatus.RUNNING:
            fields |= {"next_attempt_at": None, "error": None}
        known = {name: fields[name] for name in cls.__dataclass_fields__ if name in fields}
        connector = fields.get("connector")
        return cls(
            **known
            | {
                "status": RunStatus(status or fields["status"]),
                "execution_id": execution_id or fields.get("execution_id"),
                "connector": Connector(**connector) if connector else None,
                "input": InputBounds.from_record(fields.get("input")),
                "failed_branches": tuple(fields.get("failed_branches", ())),
                "bound_hits": tuple(fields.get("bound_hits", ())),
                "owner": owner,
            }
        )

    def projection(self) -> dict[str, Any]:
        """The one view every surface serves: instants as text, errors masked and capped (run.record.error-cap)."""
        shown = asdict(self)
        for name in ("started_at", "ended_at", "next_attempt_at"):
            shown[name] = instant(shown[name])
        if self.stop:
            shown["stop"] = {**self.stop, "requested_at": instant(self.stop["requested_at"])}
        if self.error:
            shown["error"] = {**self.error, "message": capped(self.error["message"])}
        if self.owner:
            shown["owner"] = asdict(self.owner) | {"lease_expires_at": instant(self.owner.lease_expires_at)}
        if self.input:
            shown["input"] = self.input.shown
        shown["pipeline"], shown["phase"] = shown["pipeline_id"], self.phase
        return shown


class Runs:
    """The catalog's run rows."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def get(self, run_id: str) -> RunRow | None:
        """The row of `run_id`, its lease joined."""
        rows = self._db.run(call("read_run", run_id=run_id))[0]
        return run_row(rows[0]) if rows else None

    def of_fire(self, fire_id: str) -> list[RunRow]:
        """The rows of a fire, oldest first."""
        return [run_row(row) for row in self._db.run(call("list_fire_runs", fire_id=fire_id))[0]]

    def since(self, since: int, *, ceiling: int, pipeline_id: str | None = None) -> list[RunRow]:
        """At most `ceiling` rows started at or after `since`, newest first (run.record.history-window)."""
        name = "list_runs" if pipeline_id is None else "list_pipeline_runs"
        rows = self._db.run(call(name, since=since, ceiling=ceiling, pipeline_id=pipeline_id))[0]
        return [run_row(row) for row in rows]

    def pipelines(self) -> list[str]:
        """Every pipeline that has recorded a run."""
        return [name for (name,) in self._db.run(call("run_pipelines"))[0]]

    def restore(self, row: RunRow) -> None:
        """Take a row of the reserved table into the catalog (run.record.rebuild-restores-history)."""
        self._db.run(call("upsert_run", **_columns(row)))

    def insert(self, row: RunRow) -> None:
        """Write a row that is closed from the start: a refused open, a retirement."""
        self._db.run(inserting(row))

    def reap(self) -> list[RunRow]:
        """Close running rows whose lease has lapsed as `partial_failure` (run.record.orphan-reap)."""
        return self._reap(call("orphaned_runs"))

    def reap_overtaken(self, execution_id: str) -> list[RunRow]:
        """Close the running rows that attempts of the execution left behind which hold its owner no more."""
        return self._reap(call("overtaken_runs", execution_id=execution_id))

    def _reap(self, finding: Call) -> list[RunRow]:
        orphans = (RunRow.from_record(record, execution_id=execution) for record, execution in self._db.run(finding)[0])
        return [row for orphan in orphans if (row := self._reaped(orphan))]

    def _reaped(self, orphan: RunRow) -> RunRow | None:
        row = orphan.ended(RunStatus.PARTIAL_FAILURE, at=self._db.now())
        reaped, _ = self._db.run(
            call("reap_run", run_id=row.run_id, record=row.record), call("release_reaped", run_id=row.run_id)
        )
        return row if reaped else None


def opening(row: RunRow, *, scope: str, holder: str) -> Call:
    """Return the statement that opens a run row for an attempt that took its owner (run.record.row-at-open)."""
    return call("open_run", **_columns(row) | {"scope": scope, "holder": holder})


def resuming(row: RunRow, *, scope: str, holder: str) -> Call:
    """Return the statement that takes up the row of a waiting attempt whose owner was taken for the run `row`."""
    return call("resume_run", scope=scope, holder=holder, fire_id=row.fire_id)


def noting(row: RunRow, *, holder: str) -> Call:
    """Return the statement that records what an attempt at work says of itself."""
    return call("note_run", run_id=row.run_id, record=row.record, holder=holder)


def inserting(row: RunRow) -> Call:
    """Return the statement that writes a row as it is."""
    return call("insert_run", **_columns(row))


def closing(row: RunRow) -> Call:
    """Return the statement that closes a run row that has not ended."""
    return call("close_run", run_id=row.run_id, status=row.status, record=row.record)


def _error(failure: ContextfulError | None) -> dict[str, str] | None:
    if failure is None:
        return None
    first = {} if failure.first is None else {"remedy": failure.first}
    return {"tag": str(failure.tag), "name": type(failure).__name__, "message": str(failure), **first}


def _columns(row: RunRow) -> dict[str, Any]:
    return {
        "run_id": row.run_id,
        "fire_id": row.fire_id,
        "pipeline_id": row.pipeline_id,
        "execution_id": row.execution_id,
        "status": row.status,
        "started_at": row.started_at,
        "record": row.record,
    }


def run_row(row: Row) -> RunRow:
    """The run behind a row of the view `run_rows`."""
    record, status, execution_id, pid, boot_id, lease_until, *mark = row
    owner = Lease(pid, boot_id, lease_until) if pid is not None else None
    found = RunRow.from_record(record, status=status, execution_id=execution_id, owner=owner)
    # The record of an older request gives way to the mark that stands.
    return found if mark[0] is None else replace(found, stop=Stop.of(*mark).shown)
