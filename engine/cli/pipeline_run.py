"""`contextful pipeline run`: one fire."""

from dataclasses import replace
from typing import Annotated, Any, Final

from engine.cli import output, session
from engine.cli.options import Json, ManifestPath, PipelineId, SiteId, SiteIdEnv, TableName, run_id_option, wait_option
from engine.cli.parsing import Option
from engine.errors import described

SHOWN: Final = (
    *("run_id", "execution_id", "pipeline", "table", "status", "rows", "bytes", "batches", "skipped", "not_admitted"),
    *("replayed", "started_at", "ended_at", "next_attempt_at", "error"),
)
"""What `--json` tells of each run."""

RunId = Annotated[str | None, run_id_option("pipeline", means="The run's id; with several tables R.<table>.")]
Key = Annotated[
    str | None,
    Option("--idempotency-key", envvar="CONTEXTFUL_PIPELINE_IDEMPOTENCY_KEY", metavar="K",
           help="Fire once for this key: repeated, it shows what the first came to or takes it up."),
]  # fmt: skip
Wait = Annotated[int, wait_option("pipeline", same="table")]


def run(
    pipeline_id: PipelineId,
    *,
    table: TableName = None,
    run_id: RunId = None,
    idempotency_key: Key = None,
    site_id: SiteId = None,
    site_id_env: SiteIdEnv = None,
    wait: Wait = 0,
    manifest: ManifestPath = None,
    json: Json = False,
) -> int:
    """Run a pipeline once: read what is new, land it, or resume what an earlier run left."""
    from engine.cli.firing import Firing
    from engine.cli.signals import interruptible

    with interruptible(), session.project(manifest) as project:
        chosen = session.pipeline(project.manifest, pipeline_id)
        chosen = replace(chosen, tables=session.tables(chosen, table))
        firing = Firing(project, chosen, run_id=run_id, idempotency_key=idempotency_key, wait_ms=wait)
        fired = firing.fire(site=site_id, site_env=site_id_env)
    for line in fired.complaints():
        output.say(line)
    if json:
        output.document(told(fired))
    else:
        for line in fired.summary():
            output.text(line)
    return fired.outcome.exit_code


def told(fired: Any) -> dict[str, Any]:
    """A fire as `--json` tells it."""
    projections = (run.projection() for run in fired.runs)
    runs = [{name: shown[name] for name in SHOWN} for shown in projections]
    document = {"fire_id": fired.outcome.fire_id, "state": str(fired.outcome.state), "runs": runs}
    refusals = [described(refusal) for refusal in fired.outcome.refusals]
    return document | ({"error": refusals[0], "refusals": refusals} if refusals else {})
