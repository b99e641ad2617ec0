"""An operator's desk, wherever the guards are: behind a Worker, or in a store that this machine opens itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from engine.errors import ContextfulError, ExecutionGuardUnknown, GuardStepRecorded
from engine.guards.desk import Desk, outcome
from engine.guards.evidence import Proof, evidence
from engine.guards.guard import Guard
from engine.instants import instant
from engine.shapes import EntryKey

if TYPE_CHECKING:
    from engine.guards.desk import Audit
    from engine.guards.guard import Standing
    from engine.project import Project

STRICT = "strict-guards"


class OperatorDesk(Protocol):
    """Looks at guards and releases one by evidence."""

    @property
    def cooperative(self) -> str | None:
        """What the profile's guards do not hold, None where they hold everybody."""

    def guards(self, token: str | None) -> list[Standing]:
        """Every guard that stands, or the one. Raise `ExecutionGuardUnknown` where that one does not."""

    def reconcile(
        self, token: str, *, evidence: str, operator: str, value: bytes | None, dry_run: bool
    ) -> dict[str, Any]:
        """Release the guard `token`, or supply the value of a step that was settled without one; tell what was done.

        `value` are the bytes of the step's value as the journal records it. Raise what the contract names: nothing was
        changed then.
        """


class LocalDesk:
    """A desk over the store of a project that this machine opens itself."""

    def __init__(self, project: Project) -> None:
        self._profile = project.profile
        self._desk = Desk(self._profile.database, self._profile.admission)

    @property
    def cooperative(self) -> str | None:
        """What the profile's guards do not hold."""
        if STRICT in self._profile.capabilities:
            return None
        return (
            f"the profile {self._profile.name} admits cooperatively: its guards hold every engine that works on these "
            "files, and no copy of them"
        )

    def guards(self, token: str | None) -> list[Standing]:
        """Every guard that stands, or the one."""
        try:
            return self._desk.guards(token)
        except ExecutionGuardUnknown as refusal:
            raise self._unknown(refusal.token) from None

    def reconcile(
        self, token: str, *, evidence: str, operator: str, value: bytes | None, dry_run: bool
    ) -> dict[str, Any]:
        """Release the guard, or supply a value."""
        try:
            found = self._desk.reconcile(token, evidence=evidence, operator=operator, value=value, dry_run=dry_run)
        except ExecutionGuardUnknown:
            if value is None:
                raise self._unknown(token) from None
            return self._supplied(token, text=evidence, operator=operator, value=value, dry_run=dry_run)
        return outcome(token, found.evidence, operator=operator, valued=value is not None, dry_run=dry_run)

    def _supplied(self, token: str, *, text: str, operator: str, value: bytes, dry_run: bool) -> dict[str, Any]:
        given = evidence(text, token=token)
        settled = next((each for each in self._audits(token) if each.evidence == given.text), None)
        if settled is None or given.proof is not Proof.RECEIPT:
            raise self._unknown(token)
        self._require_waiting(settled)
        if not dry_run:
            self._desk.supply(token, evidence=text, operator=operator, value=value)
        return outcome(token, given, operator=operator, valued=True, dry_run=dry_run)

    def _require_waiting(self, settled: Audit) -> None:
        """Raise `GuardStepRecorded` unless the step still waits for the value of its receipt."""
        guard = Guard.of(settled.guard)
        entry = self._profile.journal.find(EntryKey(guard.execution_id, guard.step, guard.input))
        if entry is None:
            raise GuardStepRecorded(token=guard.token, found="its execution is over")
        if entry.recorded:
            raise GuardStepRecorded(token=guard.token, found="it is recorded already")

    def _unknown(self, token: str) -> ContextfulError:
        audits = self._audits(token)
        if not audits:
            return ExecutionGuardUnknown(token=token)
        last = audits[-1]
        told = {"evidence": last.evidence, "operator": last.operator, "at": instant(last.at)}
        return ExecutionGuardUnknown(token=token, released=told)

    def _audits(self, token: str) -> list[Audit]:
        return [each for each in self._desk.audits() if each.token == token]
