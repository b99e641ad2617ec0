"""The identity of a table's declaration: what a pending run is pinned to."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from engine.pipeline.declaration import FileSource, HttpSource, Source, SqlSource
from engine.shapes import canonical_json, domain_hash

if TYPE_CHECKING:
    from engine.pipeline.declaration import Table

_OUTSIDE: Final = ("content_hash", "schedule", "meter")
_OUTSIDE_SOURCE: Final = ("timeout_ms", "base", "batch")


def hashed(table: Table) -> Table:
    """`table` with its `content_hash` (run.own.execution-owner, run.journal.plan-pin).

    Covered is the resolved declaration: what is asked, how it is paged, what lands and how. Left out is what moves
    without changing the rows: retry, meter, timeout, the rows of one batch, folders, other tables, and the values
    behind `${NAME}`. Keys that are absent do not count, so that a key this release does not know yet moves no pin when
    a later one brings it.
    """
    declared = {key: value for key, value in asdict(table).items() if key not in _OUTSIDE}
    source = {key: value for key, value in declared["source"].items() if key not in _OUTSIDE_SOURCE}
    declared["source"] = {"kind": _kind(table.source), **source}
    return replace(table, content_hash=domain_hash("contextful.table", canonical_json(_present(declared))))


def export_hash(*, destination: str, table: str | None, statement: str | None) -> str:
    """The plan reference of an export: what it publishes, and to whom.

    Left out is what moves without changing which rows go where: batch and retry, and how the destination is reached.
    """
    declared = {"destination": destination, "table": table, "statement": statement}
    return domain_hash("contextful.export", canonical_json(_present(declared)))


def _kind(source: Source) -> str:
    if isinstance(source, HttpSource):
        return "http"
    if isinstance(source, SqlSource):
        return "sql"
    return "file" if isinstance(source, FileSource) else "python"


def _present(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _present(inner) for key, inner in value.items() if inner is not None}
