"""`contextful run list`, `show` and `export`: one projection of a run, three ways out."""

import json as json_text
from typing import TYPE_CHECKING, Annotated, Any

from engine.cli import output, session
from engine.cli.options import Json, Limit, ManifestPath, Pipelines, Since
from engine.cli.parsing import Argument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.export import Line


def show(
    *,
    pipeline: Pipelines = None,
    since: Since = None,
    limit: Limit = None,
    manifest: ManifestPath = None,
    json: Json = False,
) -> None:
    """List the latest runs, newest first: 5 unless --limit says otherwise, 500 at most.

    Runs that one scope turned away in a row share a line here; --json and `run export` give each.
    """
    from engine.export import listed

    with session.state(manifest) as project:
        if json:
            _show_whole(project, pipeline or (), since=since, limit=limit)
            return
        listing = listed(_runs(project), pipelines=pipeline or (), since=since, limit=limit)
    headings = ("run_id", "pipeline", "table or scope", "status", "rows", "replayed", "started_at", "error")
    output.table(headings, [_row(line) for line in listing.lines])
    if listing.truncated:
        output.say(f"there are more: the window's ceiling is {listing.limit}, --limit raises it; run export gives each")


def one(
    run_id: Annotated[str, Argument(metavar="R", help="A run's id.")],
    *,
    manifest: ManifestPath = None,
    json: Json = False,
) -> None:
    """Show everything recorded of one run."""
    from engine.diffs import joined
    from engine.errors import RunUnknown

    with session.store(manifest) as project:
        found = _runs(project).get(run_id)
        if found is None:
            raise RunUnknown(run_id=run_id)
        shown = found.projection() | {"schema_diffs": joined(project.profile, [found])[run_id]}
    if json:
        output.document(shown)
        return
    width = max(map(len, shown))
    for name, value in shown.items():
        if value not in (None, [], ()):
            plain = value if isinstance(value, str) else json_text.dumps(value, ensure_ascii=False)
            output.text(f"{name.ljust(width)}  {plain}")


def export(
    *,
    pipeline: Pipelines = None,
    since: Since = None,
    limit: Limit = None,
    manifest: ManifestPath = None,
    json: Json = False,
) -> None:
    """Write runs as NDJSON, the window on the first line: 500 unless --limit says otherwise, 5000 at most."""
    from engine.export import exported

    with session.state(manifest) as project:
        window = exported(_runs(project), pipelines=pipeline or (), since=since, limit=limit)
        store = str(project.manifest.root)
    head = {"store": store, "window": window.shown, "count": len(window.runs), "truncated": window.truncated}
    rows = [run.projection() for run in window.runs]
    if json:
        output.document(head | {"runs": rows})
        return
    for line in (head, *rows):
        output.document(line)


def _show_whole(project: Any, pipelines: "Sequence[str]", *, since: str | None, limit: int | None) -> None:
    from engine.diffs import joined
    from engine.export import described

    window = described(_runs(project), pipelines=pipelines, since=since, limit=limit)
    diffs = joined(project.profile, window.runs)
    rows = [run.projection() | {"schema_diffs": diffs[run.run_id]} for run in window.runs]
    output.document({"runs": rows, "window": window.shown, "truncated": window.truncated})


def _runs(project: Any) -> Any:
    from engine.runs import Runs

    return Runs(project.profile.database)


def _row(line: "Line") -> list[Any]:
    row = line.run.projection()
    ran = row["table"] or row["host_scope"]
    return [row["run_id"], row["pipeline"], ran, row["status"], row["rows"], row["replayed"], row["started_at"],
            _error(row, count=line.count)]  # fmt: skip


def _error(row: dict[str, Any], *, count: int) -> str | None:
    error = f"{row['error']['name']}: {row['error']['message']}" if row["error"] else row["reason"]
    return error if count == 1 else f"{count} times: {error}"
