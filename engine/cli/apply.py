"""`contextful pipeline apply`: a numbered snapshot of the manifest."""

import getpass
from dataclasses import asdict
from typing import Annotated

from engine.cli import output, session
from engine.cli.options import Json, ManifestPath
from engine.cli.parsing import Option
from engine.clock import instant

By = Annotated[
    str | None,
    Option("--by", envvar="CONTEXTFUL_OPERATOR", metavar="WHO", help="Who applies it; without it this user."),
]


def apply(*, by: By = None, manifest: ManifestPath = None, json: Json = False) -> None:
    """Make the manifest the current numbered snapshot; one that already stands changes nothing."""
    from engine.secrets import SecretGuard
    from engine.snapshots import apply as applied_to

    with session.store(manifest) as project:
        guard = SecretGuard(project.known_secrets())
        done = applied_to(project.profile.database, project.manifest, by=by or _user(), guard=guard)
    snapshot = done.snapshot
    if json:
        output.document({
            "number": snapshot.number,
            "applied": done.fresh,
            "applied_at": instant(snapshot.applied_at),
            "by": snapshot.applied_by,
            "changes": [asdict(change) for change in done.changes],
        })  # fmt: skip
        return
    if not done.fresh:
        output.text(f"snapshot {snapshot.number} stands, applied by {snapshot.applied_by} at "
                    f"{instant(snapshot.applied_at)}: nothing changed")  # fmt: skip
        return
    output.text(f"snapshot {snapshot.number} applied: {output.counted(len(done.changes), 'table')} differ"
                f"{'s' * (len(done.changes) == 1)}")  # fmt: skip
    for change in done.changes:
        hashes = [digest[:12] for digest in (change.before, change.after) if digest and change.change != "adjusted"]
        output.text(f"  {change.table} {change.change}" + (f"  {' -> '.join(hashes)}" if hashes else ""))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as containers have
        return "unknown"
