"""`contextful run stop`: ask a run in flight, in this process or any other, to end."""

from typing import Annotated

from engine.cli import output, session
from engine.cli.options import Json, ManifestPath
from engine.cli.parsing import Argument, Option
from engine.stops import StopScope

Scope = Annotated[
    StopScope,
    Option("--scope", envvar="CONTEXTFUL_RUN_STOP_SCOPE",
           help="This run only, or all that is in flight and left of its pipeline."),
]  # fmt: skip
Reason = Annotated[
    str | None,
    Option("--reason", envvar="CONTEXTFUL_RUN_REASON", metavar="TEXT", help="Why; it goes on the record."),
]


def stop(
    run_id: Annotated[str, Argument(metavar="R", help="A run in flight, as contextful status names it.")],
    *,
    scope: Scope = StopScope.RUN,
    reason: Reason = None,
    manifest: ManifestPath = None,
    json: Json = False,
) -> None:
    """Stop a run: it ends canceled within a second, its position unmoved, and the next run goes on from there."""
    from engine.runs import Runs
    from engine.secrets import SecretGuard
    from engine.stop import stop as ask

    with session.store(manifest) as project:
        told = SecretGuard(project.known_secrets()).text(reason)[0] if reason else None
        marked = ask(project.profile, run_id, scope=scope, reason=told)
        rows = [row for name in marked if (row := Runs(project.profile.database).get(name))]
    if json:
        output.document({"run_id": run_id, "scope": str(scope), "marked": [row.projection() for row in rows]})
        return
    for row in rows:
        ending = "is canceled" if row.status.terminal else f"is asked to stop (it is {row.status})"
        output.text(f"run {row.run_id} {ending}")
