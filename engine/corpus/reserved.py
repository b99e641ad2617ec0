"""The run history as a table that SQL reads: the latest row of each run and phase, beside the tables it tells of.

It has no markers; the instant each row was appended at bounds it as a commit's does a table (run.record.time-travel).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from engine.history import RESERVED, History
from engine.shapes import canonical_json

if TYPE_CHECKING:
    import duckdb

    from engine.history import Appended
    from engine.ports import Objects

_INSTANTS: Final = ("started_at", "ended_at", "next_attempt_at")
_TEXTS: Final = (
    "run_id", "phase", "status", "fire_id", "pipeline_id", "table", "chunk", "host_scope", "execution_id", "plan_ref",
    "site_id", "reason", "trace_id",
)  # fmt: skip
_COUNTS: Final = ("rows", "bytes", "batches", "skipped", "not_admitted", "replayed", "masked")
_NESTED: Final = ("error", "failed_branches", "bound_hits", "stop", "connector", "input")
_APPENDED: Final = "_appended_at"

_MOMENT: Final = pa.timestamp("ms", tz="UTC")
_SCHEMA: Final = pa.schema(
    [pa.field(name, pa.string()) for name in _TEXTS]
    + [pa.field(name, _MOMENT) for name in _INSTANTS]
    + [pa.field(name, pa.int64()) for name in _COUNTS]
    + [pa.field(name, pa.string()) for name in _NESTED]
    + [pa.field(_APPENDED, _MOMENT)]
)

COLUMNS: Final = tuple(_SCHEMA.names)
"""What a reader finds, in order; nested values as JSON, instants with their zone."""


def named(table: str) -> bool:
    """Whether a statement's `table` is the reserved one."""
    return table.lower() == RESERVED


def tabled(connection: duckdb.DuckDBPyConnection, objects: Objects, *, as_of: int | None) -> None:
    """Make the table of the rows appended up to `as_of` in `connection`, before it is shut."""
    rows = [_row(appended) for appended in History(objects).appended(as_of=as_of)]
    nested = ", ".join(f"CAST({name} AS JSON) AS {name}" for name in _NESTED)
    made = f"CREATE TABLE {RESERVED} AS SELECT * REPLACE ({nested}) FROM appended"  # noqa: S608 - constants
    with connection.cursor() as apart:  # the connection itself still holds the answer about the statement's tree
        apart.register("appended", pa.Table.from_pylist(rows, schema=_SCHEMA))
        apart.execute(made)


def _row(appended: Appended) -> dict[str, Any]:
    """One row, as the projection that every surface serves has it (run.record.error-cap)."""
    run, shown = appended.run, appended.run.projection()
    texts = {name: None if shown[name] is None else _utf8(str(shown[name])) for name in _TEXTS}
    instants = {name: getattr(run, name) for name in _INSTANTS}
    nested = {name: _utf8(canonical_json(shown[name])) if shown[name] else None for name in _NESTED}
    return {**texts, **instants, **{name: shown[name] for name in _COUNTS}, **nested, _APPENDED: appended.at}


def _utf8(text: str) -> str:
    """`text` as a column holds it: what UTF-8 lacks becomes a question mark."""
    return text.encode("utf-8", "replace").decode()
