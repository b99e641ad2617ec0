"""`contextful storage guard` and `reconcile-guard`: the guards that stand, and their release by an operator."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from engine.cli import output, session
from engine.cli.options import DryRun, Json, ManifestPath
from engine.cli.parsing import Option

if TYPE_CHECKING:
    from engine.guards.guard import Standing
    from engine.operator.places import Place

ProjectName = Annotated[
    str | None,
    Option("--project", envvar="CONTEXTFUL_PROJECT", metavar="NAME",
           help="The project; without it the manifest's."),
]  # fmt: skip
Token = Annotated[
    str | None,
    Option("--token", envvar="CONTEXTFUL_GUARD_TOKEN", metavar="T", help="This guard only."),
]
TheToken = Annotated[str, Option("--token", envvar="CONTEXTFUL_GUARD_TOKEN", metavar="T", help="The guard to release.")]
EvidenceText = Annotated[
    str,
    Option("--evidence", envvar="CONTEXTFUL_GUARD_EVIDENCE", metavar="E",
           help="idempotency:KEY, receipt:KEY:ID or receipt:KEY:absent."),
]  # fmt: skip
Operator = Annotated[
    str, Option("--operator", envvar="CONTEXTFUL_OPERATOR", metavar="WHO", help="Who says so; it goes on the record.")
]
Value = Annotated[
    Path | None,
    Option("--value", envvar="CONTEXTFUL_GUARD_VALUE", metavar="FILE",
           help="With a receipt: the step's value as JSON, which the next attempt replays."),
]  # fmt: skip


def show(
    *, project: ProjectName = None, token: Token = None, manifest: ManifestPath = None, json: Json = False
) -> None:
    """Show the guards that stand, and what would release each.

    A guard keeps a call to a destination from being sent twice while nobody knows what came of it.
    """
    from engine.operator.places import place

    with place(project, manifest=manifest, environ=os.environ, clock=session.clock.get()) as found:
        guards = found.desk.guards(token)
        if note := found.desk.cooperative:
            output.say(note)
        if json:
            output.document({"guards": [each.projection() for each in guards]})
        elif guards:
            _tell(guards, found)
        else:
            output.text(f"no guard stands in project {found.project}")


def reconcile(
    *,
    project: ProjectName = None,
    token: TheToken,
    evidence: EvidenceText,
    operator: Operator,
    value: Value = None,
    dry_run: DryRun = False,
    manifest: ManifestPath = None,
    json: Json = False,
) -> None:
    """Release a guard by evidence of what became of its call, on the record.

    Look for the guard's key at its destination first: contextful storage guard says where. A receipt with --value may
    also be given for a guard that the same receipt released without one.
    """
    from engine.operator.places import place
    from engine.operator.values import recorded

    given = None if value is None else recorded(value)
    with place(project, manifest=manifest, environ=os.environ, clock=session.clock.get()) as found:
        done = found.desk.reconcile(token, evidence=evidence, operator=operator, value=given, dry_run=dry_run)
    if json:
        output.document(done)
        return
    _told(done)


def _tell(guards: "list[Standing]", found: "Place") -> None:
    from engine.operator.words import lines

    for each in guards:
        output.text(f"guard {each.guard.token}")
        address = found.destinations.get(each.guard.destination)
        for heading, text in lines(each, project=found.project, address=address):
            output.text(f"  {heading:<16} {text}")
        output.text()
    output.text(f"{output.counted(len(guards), 'guard')} in project {found.project}")


def _told(done: dict[str, Any]) -> None:
    verb = "would be" if done["dry_run"] else "is"
    output.text(f"guard {done['token']} {verb} released by {done['evidence']}")
    output.text(f"on the record: {done['operator']}")
    output.text(done["follows"])
