"""`contextful pipeline reset` and `table drop`: start over. Both ask, and refuse while work is unfinished."""

from typing import TYPE_CHECKING, Annotated, Any

from engine.cli import output, session
from engine.cli.confirm import confirm
from engine.cli.options import Json, ManifestPath, PipelineId, TableName, Yes
from engine.cli.parsing import Argument, Misuse, Option
from engine.shapes import canonical_json

if TYPE_CHECKING:
    from engine.project import Project
    from engine.reset import Standing

To = Annotated[
    str | None,
    Option("--to", envvar="CONTEXTFUL_PIPELINE_TO", metavar="POSITION",
           help="A watermark's value, or the source's own position as JSON; without it from nothing."),
]  # fmt: skip


def reset(
    pipeline_id: PipelineId,
    *,
    table: TableName = None,
    to: To = None,
    yes: Yes = False,
    manifest: ManifestPath = None,
    json: Json = False,
) -> None:
    """Start over from a position or from nothing. The rows stay: table drop removes those."""
    from engine.reset import parsed, standing
    from engine.reset import reset as moved

    with session.project(manifest) as project:
        chosen = session.tables(session.pipeline(project.manifest, pipeline_id), table)
        if to is not None and len(chosen) > 1:
            raise Misuse("--to is one table's position: name it with --table")
        with session.engine(project) as engine:
            stand = {each.name: standing(engine, each.name) for each in chosen}
            target = {e.name: None if to is None else parsed(e, to, standing=stand[e.name].position) for e in chosen}
            moving = [each for each in chosen if target[each.name] != stand[each.name].position]
            if moving:
                confirm("\n".join(_plan(stand[each.name], target[each.name]) for each in moving), yes=yes)
            for each in moving:
                moved(engine, each, target[each.name])
    told = [{"table": e.name, "from": stand[e.name].position, "to": target[e.name]} for e in chosen]
    if json:
        output.document({"pipeline": pipeline_id, "tables": told})
        return
    for line in told:
        was = "stays at" if line["from"] == line["to"] else "is reset to"
        output.text(f"{line['table']} {was} {_shown(line['to'])}")


def drop(
    table: Annotated[str, Argument(metavar="T", help="A table, of the manifest or of the corpus.")],
    *,
    yes: Yes = False,
    manifest: ManifestPath = None,
    json: Json = False,
) -> None:
    """Remove a table: every row, every commit and its position."""
    from engine.reset import drop as dropped
    from engine.reset import standing

    with session.project(manifest) as project:
        known = _tables(project)
        if table not in known:
            raise session.table_unknown(table, known=known, place=f"project {project.manifest.project}")
        with session.engine(project) as engine:
            stands = standing(engine, table)
            rows, position = output.counted(stands.rows, "row"), _shown(stands.position)
            confirm(f"{table} stands at {position}; it loses that and its {rows}", yes=yes)
            commits = dropped(engine, table)
    if json:
        output.document({"table": table, "rows": stands.rows, "commits": commits})
        return
    output.text(f"dropped {table}: {output.counted(stands.rows, 'row')} of {output.counted(commits, 'commit')}")


def _tables(project: "Project") -> list[str]:
    from engine.corpus.read import ReadFace

    declared = [table.name for each in project.manifest.pipelines for table in each.tables]
    return list(dict.fromkeys([*declared, *ReadFace(project.profile.objects).tables()]))


def _plan(stands: "Standing", target: Any) -> str:
    again = "is read again from there" if target is not None else "is read from the start again"
    return (
        f"{stands.table} stands at {_shown(stands.position)} with {output.counted(stands.rows, 'row')}; "
        f"it is reset to {_shown(target)} and {again}, the rows stay"
    )


def _shown(position: Any) -> str:
    return "no position" if position is None else canonical_json(position)
