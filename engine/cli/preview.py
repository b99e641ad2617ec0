"""`contextful pipeline preview`: the first page of a table with the types it would land. Nothing lands."""

from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from engine.cli import output, session
from engine.cli.options import Json, ManifestPath, PipelineId, TableName

if TYPE_CHECKING:
    import httpx

    from engine.pipeline.declaration import Table
    from engine.pipeline.source import Secrets

SHOWN = 10
"""Rows printed of a page; JSON has them all."""


def preview(
    pipeline_id: PipelineId, *, table: TableName = None, manifest: ManifestPath = None, json: Json = False
) -> None:
    """Show the first page of each table with the types it would land, and land nothing."""
    with session.project(manifest) as project:
        chosen = session.pipeline(project.manifest, pipeline_id)
        chosen = replace(chosen, tables=session.tables(chosen, table))
        secrets = project.secrets(chosen)
    pages = [_first_page(each, secrets) for each in chosen.tables]
    if json:
        output.document({"pipeline": chosen.id, "tables": pages})
        return
    for page in pages:
        _print(page)


def _first_page(table: "Table", secrets: "Secrets") -> dict[str, Any]:
    """What a run's first pull would record, asked once and kept nowhere."""
    from engine.corpus.values import plain
    from engine.pipeline.shape import shape
    from engine.pipeline.source import Ask
    from engine.pipeline.sources import open_source
    from engine.secrets import SecretGuard
    from engine.shapes import Pull

    guard = SecretGuard(secrets)
    with ExitStack() as stack:
        ask = Ask(client=cache(lambda: stack.enter_context(_client())), secrets=secrets)
        pull = next(iter(open_source(table).pulls(ask)), Pull())
    declared = {name: column.type for name, column in table.columns.items() if column.type} | pull.types
    shaped = shape(pull.rows, declared=declared, table=table.name, place=f"{table.name}, first page")
    batch, masked = guard.batch(shaped.batch)
    names = batch.schema.names
    return {
        "table": table.name,
        "columns": [{"name": column.name, "type": column.type} for column in shaped.schema.columns],
        "untyped": shaped.untyped,
        "downgrades": [downgrade.path for downgrade in shaped.downgrades],
        "rows": [[plain(row[name]) for name in names] for row in batch.to_pylist()],
        "more": pull.more,
        "skipped": pull.skipped,
        "masked": masked,
    }


def _client() -> "httpx.Client":
    import httpx

    return httpx.Client(follow_redirects=False, trust_env=False)


def _print(page: dict[str, Any]) -> None:
    rows, more = page["rows"], ", and there are more pages" if page["more"] else ""
    output.text(f"{page['table']}: {output.counted(len(rows), 'row')} on the first page{more}; nothing has landed")
    for column in page["columns"]:
        note = "  (nested values land as JSON text)" if column["name"] in page["downgrades"] else ""
        output.text(f"  {column['name']} {column['type']}{note}")
    for name in page["untyped"]:
        output.text(f"  {name} null throughout: it gets a column once a value has a type")
    if rows:
        output.text()
        output.table([column["name"] for column in page["columns"]], rows[:SHOWN])
