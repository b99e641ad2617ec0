"""`contextful status`: what is unfinished."""

from typing import Any

from engine.cli import output, session
from engine.cli.options import Json, ManifestPath


def status(*, manifest: ManifestPath = None, json: Json = False) -> None:
    """Show every unfinished execution, how far it is and the verb that moves it on."""
    from engine.clock import Chance
    from engine.owners import Owners
    from engine.status import pending

    with session.store(manifest) as project:
        owners = Owners(project.profile.database, project.profile.journal, Chance()).all()
        rows = [each.projection() for each in pending(project.profile, owners, declared=project.manifest)]
    if json:
        output.document({"pending": rows})
        return
    if not rows:
        output.text("nothing is unfinished")
        return
    headings = ("scope", "execution", "state", "attempt", "lease until", "recorded", "waits", "guard")
    output.table(headings, [_row(row) for row in rows])
    output.text()
    for row in rows:
        output.text(f"{row['scope']}: {row['next']}")


def _row(row: dict[str, Any]) -> list[Any]:
    waits = [f"{wait['step']} until {wait['deadline']}" for wait in row["waits"]]
    if row["wake_at"]:
        waits.append(f"until {row['wake_at']}")
    recorded = f"{row['recorded']} of {output.counted(row['steps'], 'step')}"
    return [row["scope"], row["execution_id"], row["state"], row["attempt"], row["lease_until"], recorded,
            ", ".join(waits), _guard(row["guard"])]  # fmt: skip


def _guard(guard: dict[str, Any] | None) -> str | None:
    return None if guard is None else f"{guard['token']} ({guard['evidence_class']}, {guard['destination']})"
