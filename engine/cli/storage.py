"""`contextful storage …` and `catalog rebuild`: the store itself."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from engine.cli import output, session
from engine.cli.options import DryRun, Json, ManifestPath
from engine.cli.parsing import Argument

if TYPE_CHECKING:
    from engine.backup import Backup
    from engine.project import Project

Folder = Annotated[Path, Argument(metavar="DIR", help="The backup's folder.")]


def initialize(*, manifest: ManifestPath = None, json: Json = False) -> None:
    """Create what the store lacks; repeating it changes nothing."""
    with session.project(manifest) as project:
        created, adopted = _initialized(project)
        root = str(project.manifest.root)
    if json:
        output.document({"root": root, "created": created, "adopted": adopted})
        return
    output.text(f"{root}: {output.counted(len(created), 'table')} created" if created else f"{root}: nothing to do")
    if adopted:
        output.text("next: contextful catalog rebuild restores history and positions from the corpus")


def check(*, manifest: ManifestPath = None, json: Json = False) -> int:
    """Look the whole store over and list every problem: state, blobs, commits and parts."""
    from engine.check import check as looked_over
    from engine.clock import Chance

    with session.project(manifest) as project:
        found = looked_over(project.profile, project=project.manifest.project, chance=Chance())
    if json:
        output.document(asdict(found))
    else:
        for problem in found.problems:
            output.text(problem)
        seen = ", ".join(
            output.counted(count, thing)
            for count, thing in (
                (found.tables, "table"),
                (found.commits, "commit"),
                (found.parts, "part"),
                (found.blobs, "blob"),
            )
        )
        output.text(f"{output.counted(len(found.problems), 'problem')} in {seen}")
    return 1 if found.problems else 0


def sweep(*, manifest: ManifestPath = None, dry_run: DryRun = False, json: Json = False) -> None:
    """Remove what crashes left and nobody will need: staged files and parts of dead runs, half-written objects, blobs.

    What a live, waiting or resumable run may need stays, and so does everything younger than a day (blobs: an hour).
    """
    from engine.clock import Chance
    from engine.storage import preflight
    from engine.sweep import found, removed

    with session.project(manifest) as project:
        profile = project.profile
        preflight(profile, project=project.manifest.project)
        swept = found(profile, chance=Chance())
        if not dry_run:
            swept = removed(profile, swept)
    if json:
        output.document(asdict(swept) | {"dry_run": dry_run})
        return
    counts = (
        output.counted(len(swept.staged), "staged folder"),
        output.counted(len(swept.parts), "unpublished part"),
        output.counted(len(swept.unfinished), "half-written object"),
        output.counted(len(swept.blobs), "unreferenced blob"),
    )
    output.text(f"{'would remove' if dry_run else 'removed'} {', '.join(counts)}")


def backup(folder: Folder, *, manifest: ManifestPath = None, json: Json = False) -> None:
    """Write the execution state into the new folder DIR, with the names of the objects it goes with.

    No engine may be at work. The objects of a bucket are not copied; keep the bucket, or copy it beside the backup.
    """
    from engine.backup import backup as backed_up

    with session.project(manifest) as project:
        done = backed_up(project.profile, folder, project=project.manifest.project)
    _tell(done, "backed up", json=json)


def restore(folder: Folder, *, manifest: ManifestPath = None, json: Json = False) -> None:
    """Bring the backup in DIR into a store that holds nothing yet, beside the objects it goes with."""
    from engine.backup import restore as restored

    with session.project(manifest) as project:
        done = restored(project.profile, folder, project=project.manifest.project)
    _tell(done, "restored", json=json)


def rebuild(*, manifest: ManifestPath = None, json: Json = False) -> None:
    """Rebuild the catalog from the corpus: run history and positions. Unfinished work is left as it is."""
    from engine.catalog import rebuild as rebuilt
    from engine.storage import preflight

    with session.project(manifest) as project:
        _, adopted = _initialized(project) if _unused(project) else ([], False)
        preflight(project.profile, project=project.manifest.project)
        declared = [table.name for each in project.manifest.pipelines for table in each.tables]
        done = rebuilt(project.profile, declared=declared)
    if json:
        output.document(asdict(done) | {"adopted": adopted})
        return
    output.text(f"restored {output.counted(done.runs, 'run')} and {output.counted(len(done.positions), 'position')}")


def _tell(done: "Backup", did: str, *, json: bool) -> None:
    if json:
        output.document(asdict(done))
        return
    rows = output.counted(sum(done.rows.values()), "row")
    output.text(
        f"{did} {rows}; it goes with {output.counted(done.objects, 'object')} and {output.counted(done.blobs, 'blob')}"
    )


def _initialized(project: "Project") -> tuple[list[str], bool]:
    """The tables created, and whether a corpus without state was adopted, which is said."""
    from engine.sql import call
    from engine.storage import preflight

    database = project.profile.database
    before = {name for (name,) in database.run(call("list_tables"))[0]}
    adopted = not before and any(True for _ in project.profile.objects.list(""))
    project.initialize()
    preflight(project.profile, project=project.manifest.project)
    created = sorted({name for (name,) in database.run(call("list_tables"))[0]} - before)
    if adopted:
        output.say("the corpus held rows and no state: its rows stay, the recorded work of unfinished runs is gone")
    return created, adopted


def _unused(project: "Project") -> bool:
    from engine.storage import is_empty

    return is_empty(project.profile.database)
