"""`contextful run rewind`: give an unfinished execution up."""

from typing import Annotated

from engine.cli import output, session
from engine.cli.options import Json, ManifestPath
from engine.cli.parsing import Argument, Option

Reason = Annotated[
    str, Option("--reason", envvar="CONTEXTFUL_RUN_REASON", metavar="TEXT", help="Why; it goes on the record.")
]
Force = Annotated[
    bool,
    Option("--force", envvar="CONTEXTFUL_RUN_FORCE",
           help="Also where the next fire would resume it; what is alive is never retired."),
]  # fmt: skip


def rewind(
    execution_id: Annotated[str, Argument(metavar="X", help="An execution that contextful status names.")],
    *,
    reason: Reason,
    force: Force = False,
    manifest: ManifestPath = None,
    json: Json = False,
) -> None:
    """Retire a pending execution: its recorded work goes, its committed position stays."""
    from engine.rewind import rewind as retire

    with session.project(manifest) as project, session.engine(project) as engine:
        pipelines = {table.name: table.pipeline_id for each in project.manifest.pipelines for table in each.tables}
        row = retire(engine, execution_id, reason=reason, force=force, pipelines=pipelines)
    if json:
        output.document(row.projection())
        return
    scope = row.table or row.host_scope
    output.text(f"retired {execution_id}: the next run of {scope} is a fresh execution (recorded as {row.run_id})")
