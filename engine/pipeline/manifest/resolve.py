"""From checked values to the frozen declaration: defaults filled in, overrides applied, texts left as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.meters import Quota
from engine.pipeline.declaration import (
    Column,
    Destination,
    Export,
    FileSource,
    HttpSource,
    Manifest,
    Paginate,
    Pipeline,
    PythonSource,
    Source,
    SqlSource,
    Table,
)  # fmt: skip
from engine.pipeline.manifest.hashing import export_hash, hashed
from engine.pipeline.manifest.merge import merged
from engine.pipeline.manifest.placeholders import names_in
from engine.schedule import Schedule
from engine.shapes import WriteMode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def manifest(document: Mapping[str, Any], path: Path) -> Manifest:
    """The manifest at the absolute `path`, of values that passed every check."""
    project = document["project"]
    return Manifest(
        path=path,
        project=project["name"],
        root=path.parent / project.get("root", ".contextful"),
        site_id=project.get("site_id"),
        site_id_env=project.get("site_id_env"),
        pipelines=tuple(_pipeline(declared, path.parent) for declared in document["pipeline"]),
        destinations=tuple(_destination(declared) for declared in document.get("destination", ())),
        exports=tuple(_export(declared) for declared in document.get("export", ())),
        secret_names=names_in(document) | _declared_secrets(document),
    )


def _declared_secrets(document: Mapping[str, Any]) -> frozenset[str]:
    """The names that Python sources, and their tables, declare in `secrets`."""
    takers = [taker for one in document["pipeline"] for taker in (one["source"], *one["table"])]
    return frozenset(name for taker in takers for name in taker.get("secrets", ()))


def _pipeline(declared: Mapping[str, Any], base: Path) -> Pipeline:
    tables = (_table(table, declared["source"], pipeline_id=declared["id"], base=base) for table in declared["table"])
    return Pipeline(id=declared["id"], tables=tuple(tables))


def _table(declared: Mapping[str, Any], source: Mapping[str, Any], *, pipeline_id: str, base: Path) -> Table:
    whole = merged(source, declared)
    columns = declared.get("columns", {}).items()
    table = Table(
        name=declared["name"],
        pipeline_id=pipeline_id,
        source=_source(whole, base),
        content_hash="",
        primary_key=tuple(declared.get("primary_key", ())),
        write_mode=WriteMode(declared.get("write_mode", "append")),
        incremental=declared.get("incremental"),
        since_param=declared.get("since_param"),
        until_param=declared.get("until_param"),
        allowed_lateness_ms=declared.get("allowed_lateness", 0),
        skip_unchanged=declared.get("skip_unchanged", False),
        columns={name: Column(type=column.get("type"), treatment=column.get("class")) for name, column in columns},
        schedule=Schedule(**whole.get("retry", {})),
        meter=_quota(declared, source, pipeline_id=pipeline_id),
    )
    return hashed(table)


def _quota(declared: Mapping[str, Any], source: Mapping[str, Any], *, pipeline_id: str) -> Quota | None:
    """The quota of a table's pulls: its own, or the source's, which all the source's other tables share."""
    if "meter" in declared:
        return Quota(f"table:{declared['name']}", declared["meter"]["limit"], declared["meter"]["every"])
    if "meter" in source:
        return Quota(f"pipeline:{pipeline_id}", source["meter"]["limit"], source["meter"]["every"])
    return None


def _source(whole: Mapping[str, Any], base: Path) -> Source:
    if whole["kind"] == "file":
        return FileSource(path=whole["path"], base=base, format=whole.get("format"))
    if whole["kind"] == "python":
        return PythonSource(entry=whole["entry"], base=base, secrets=tuple(sorted(set(whole.get("secrets", ())))))
    if whole["kind"] == "sql":
        return SqlSource(
            dsn=whole["dsn"],
            base=base,
            query=whole.get("query"),
            relation=whole.get("from"),
            batch=whole.get("batch", 10_000),
            timeout_ms=whole.get("timeout", 30_000),
        )
    return HttpSource(
        url=whole["url"],
        records=whole.get("records"),
        paginate=_paginate(whole.get("paginate")),
        method=whole.get("method", "GET"),
        headers=whole.get("headers", {}),
        params=whole.get("params", {}),
        body=whole.get("body"),
        timeout_ms=whole.get("timeout", 30_000),
    )


def _paginate(declared: Mapping[str, Any] | None) -> Paginate | None:
    if declared is None:
        return None
    return Paginate(**{"start": 1, **declared}) if declared["by"] == "page" else Paginate(**declared)


def _destination(declared: Mapping[str, Any]) -> Destination:
    return Destination(
        name=declared["name"],
        url=declared["url"],
        idempotency_header=declared.get("idempotency_header", "Idempotency-Key"),
        dedup_window_ms=declared.get("dedup_window"),
        refusals=tuple(declared.get("refusals", ())),
        headers=declared.get("headers", {}),
        timeout_ms=declared.get("timeout", 30_000),
    )


def _export(declared: Mapping[str, Any]) -> Export:
    published = {key: declared.get(key) for key in ("table", "statement")}
    return Export(
        name=declared["name"],
        destination=declared["destination"],
        content_hash=export_hash(destination=declared["destination"], **published),
        table=declared.get("table"),
        statement=declared.get("statement"),
        batch=declared.get("batch", 100),
        schedule=Schedule(**declared.get("retry", {})),
    )
