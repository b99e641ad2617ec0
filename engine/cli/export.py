"""`contextful export …`: publications."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from engine.cli import output, session
from engine.cli.options import Json, ManifestPath, SiteId, SiteIdEnv, run_id_option, wait_option
from engine.cli.parsing import Argument

if TYPE_CHECKING:
    from engine.exports.run import Exported
    from engine.pipeline.declaration import Export

SHOWN: Final = (
    *("run_id", "execution_id", "status", "rows", "bytes", "batches", "replayed", "started_at", "ended_at"),
    *("next_attempt_at", "error"),
)
"""What `--json` tells of a run."""

Name = Annotated[str, Argument(metavar="NAME", help="An export of the manifest.")]
AnyName = Annotated[str | None, Argument(metavar="NAME", help="This export of the manifest only.")]
RunId = Annotated[str | None, run_id_option("export", means="The run's id.")]
Wait = Annotated[int, wait_option("export", same="export")]


def show(name: AnyName = None, *, manifest: ManifestPath = None, json: Json = False) -> None:
    """List the exports: where each publishes, how far it is, and the verb that moves it on."""
    from engine.clock import Chance
    from engine.exports.listing import listed

    with session.store(manifest) as project:
        declared = project.manifest
        chosen = declared.exports if name is None else (session.export(declared, name),)
        rows = [each.projection() for each in listed(project.profile, declared, exports=chosen, chance=Chance())]
    if json:
        output.document({"exports": rows})
        return
    if not rows:
        output.text("the manifest declares no export")
        return
    headings = ("export", "publishes", "destination", "window", "state", "last run", "to deliver", "guard")
    output.table(headings, [_row(row) for row in rows])
    output.text()
    for row in rows:
        output.text(f"{row['name']}: {row['next']}")


def run(
    name: Name,
    *,
    run_id: RunId = None,
    site_id: SiteId = None,
    site_id_env: SiteIdEnv = None,
    wait: Wait = 0,
    manifest: ManifestPath = None,
    json: Json = False,
) -> int:
    """Publish what is new since the last run, or go on with what that left: nothing delivered is sent again."""
    from engine.cli.exporting import exported
    from engine.cli.signals import interruptible

    with interruptible(), session.project(manifest) as project:
        chosen = session.export(project.manifest, name)
        ended = exported(project, chosen, run_id=run_id, site=site_id, site_env=site_id_env, wait_ms=wait)
    _complain(chosen, ended)
    if json:
        output.document(_told(chosen, ended))
    else:
        output.text(_came_to(chosen, ended))
    return ended.exit_code


def _complain(export: Export, ended: Exported) -> None:
    """Say what went wrong as a named error, and the next step."""
    from engine.shapes import RunStatus

    row = ended.run.projection()
    if ended.run.status is RunStatus.WAITING:
        output.say(
            f"{export.name} waits until {row['next_attempt_at']}: contextful export run {export.name} goes on then"
        )
    elif row["error"]:
        output.say(f"{row['error']['name']}: {row['error']['message']}")
        if ended.failure is None or ended.failure.remedy is None:
            output.say(f"next: contextful export run {export.name} sends what is not delivered yet")


def _told(export: Export, ended: Exported) -> dict[str, Any]:
    row = ended.run.projection()
    facts = ended.failure.facts if ended.failure else {}
    guard = {"token": facts["token"], "evidence_class": facts["evidence_class"]} if "evidence_class" in facts else None
    run = {name: row[name] for name in SHOWN}
    return {"export": export.name, "destination": export.destination, **run, "guard": guard}


def _came_to(export: Export, ended: Exported) -> str:
    row = ended.run
    batches, rows = _batches(row.batches), output.counted(row.rows, "row")
    replayed = f", {row.replayed:,} of them delivered before" if row.replayed else ""
    delivered = f"{rows} in {batches}{replayed} (run {row.run_id})"
    if ended.exit_code == 0:
        return f"{export.name}: delivered {delivered} to {export.destination}"
    return f"{export.name}: {row.status}, delivered so far {delivered}"


def _row(row: dict[str, Any]) -> list[Any]:
    last, left, guard = row["last_run"], row["pending"], row["guard"]
    return [
        row["name"],
        row["table"] or row["statement"],
        row["destination"],
        "none" if row["window"] is None else f"{row['window']:g} s",
        row["state"],
        last and f"{last['status']} {last['ended_at'] or last['started_at']}",
        f"{left['undelivered']} of {_batches(left['batches'])}" if left["batches"] else None,
        guard and f"{guard['token']} ({guard['evidence_class']})",
    ]


def _batches(count: int) -> str:
    return f"{count:,} batch{'es' * (count != 1)}"
