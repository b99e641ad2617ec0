"""`contextful pipeline validate` and `list`."""

import os
from typing import Any

from engine.cli import output, session
from engine.cli.options import Json, ManifestPath

_NAMING = ("url", "path", "entry", "relation", "query")
"""What names a source in a list: never a dsn, which may hold a password."""


def validate(*, manifest: ManifestPath = None, json: Json = False) -> None:
    """Check the manifest: every problem at once; warn of secrets that are not set."""
    from engine.pipeline.manifest import missing_secrets

    with session.project(manifest) as project:
        declared = project.manifest
    missing = missing_secrets(declared, os.environ)
    for name, place in missing:
        output.say(f"warning: {place} needs the secret {name}, which is not set")
    names = {each.id: [table.name for table in each.tables] for each in declared.pipelines}
    if json:
        secrets = [{"name": name, "place": place} for name, place in missing]
        output.document({"manifest": str(declared.path), "valid": True, "pipelines": names, "missing_secrets": secrets})
        return
    count = sum(map(len, names.values()))
    output.text(f"{declared.path} is valid: {output.counted(len(names), 'pipeline')}, {output.counted(count, 'table')}")


def show(*, manifest: ManifestPath = None, json: Json = False) -> None:
    """List the pipelines and their tables."""
    with session.project(manifest) as project:
        rows = [_table(table) for each in project.manifest.pipelines for table in each.tables]
    if json:
        output.document({"pipelines": rows})
        return
    headings = ("pipeline", "table", "source", "key", "mode", "incremental")
    output.table(headings, [[_plain(row[name]) for name in headings] for row in rows])


def _table(table: Any) -> dict[str, Any]:
    source = table.source
    return {
        "pipeline": table.pipeline_id,
        "table": table.name,
        "source": next(filter(None, (getattr(source, name, None) for name in _NAMING)), None),
        "key": list(table.primary_key),
        "mode": str(table.write_mode),
        "incremental": table.incremental,
    }


def _plain(value: Any) -> str | None:
    return ", ".join(value) if isinstance(value, list) else value
