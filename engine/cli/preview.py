"""`contextful pipeline preview`: the first page of a table with the types it would land. Nothing lands.

Of protected columns it shows what would be recorded, never what the source answered.
"""

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

_TREATED = {
    "drop": "it is left out",
    "null": "its values are left out",
    "hash": "its values are replaced by their digests",
}


def preview(
    pipeline_id: PipelineId, *, table: TableName = None, manifest: ManifestPath = None, json: Json = False
) -> None:
    """Show the first page of each table with the types it would land, and land nothing."""
    from engine.pipeline.declaration import PEPPER

    with session.project(manifest) as project:
        chosen = session.pipeline(project.manifest, pipeline_id)
        chosen = replace(chosen, tables=session.tables(chosen, table))
        secrets, pepper = project.secrets(chosen), project.environ.get(PEPPER)
    with session.aside():
        pages = [_first_page(each, secrets, pepper=pepper) for each in chosen.tables]
    if json:
        output.document({"pipeline": chosen.id, "tables": pages})
        return
    for page in pages:
        _print(page)


def _first_page(table: "Table", secrets: "Secrets", *, pepper: str | None) -> dict[str, Any]:
    """What a run's first pull would record, asked once and kept nowhere."""
    from engine.corpus.values import plain
    from engine.pipeline.protect import Protection
    from engine.pipeline.recording import PullMeta
    from engine.pipeline.shape import shape
    from engine.pipeline.source import Ask
    from engine.pipeline.sources import open_source
    from engine.secrets import SecretGuard
    from engine.shapes import Pull

    source = open_source(table)
    guard, protection = SecretGuard(secrets), Protection.of(table, source, pepper=pepper)
    with ExitStack() as stack, protection.reading():
        ask = Ask(client=cache(lambda: stack.enter_context(_client())), secrets=secrets)
        pull = next(iter(source.pulls(ask)), Pull())
        declared = {name: column.type for name, column in table.columns.items() if column.type} | pull.types
        place, protected = f"{table.name}, first page", protection.treatments
        shaped = shape(pull.rows, declared=declared, table=table.name, place=place, protected=protected)
    guarded, masked = guard.batch(shaped.batch)
    meta = protection.meta(PullMeta(schema=shaped.schema, downgrades=shaped.downgrades))
    batch = protection.batch(guarded, shaped.schema)
    names = batch.schema.names
    return {
        "table": table.name,
        "columns": [{"name": column.name, "type": column.type} for column in meta.schema.columns],
        "untyped": shaped.untyped,
        "downgrades": [downgrade.path for downgrade in meta.downgrades],
        "notes": {downgrade.path: downgrade.reason for downgrade in meta.downgrades},
        "protected": {name: protected[name] for name in sorted(protected)},
        "not_found": protection.absent((*names, *shaped.untyped, *shaped.dropped)),
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
        note = page["notes"].get(column["name"])
        output.text(f"  {column['name']} {column['type']}" + (f"  ({note})" if note else ""))
    for name, treatment in page["protected"].items():
        absent = name in page["not_found"]
        does = ", and no such column is on this page" if absent else f": {_TREATED[treatment]}"
        output.text(f"  {name} has the class {treatment}{does}")
    for name in page["untyped"]:
        output.text(f"  {name} null throughout: it gets a column once a value has a type")
    if rows:
        output.text()
        output.table([column["name"] for column in page["columns"]], rows[:SHOWN])
