"""An operator's desk: looks at the guards of a store and releases one by evidence, its audit row in the same batch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from engine.errors import Config, ExecutionGuardEvidenceMismatch, ExecutionGuardHeld, ExecutionGuardUnknown, Refused
from engine.guards.evidence import NAME, Evidence, Proof, judged, signature
from engine.guards.evidence import evidence as read
from engine.guards.guard import Guard
from engine.guards.store import Guards
from engine.shapes import canonical_json
from engine.sql import call
from engine.unanswered import settled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from engine.errors import ContextfulError
    from engine.guards.guard import Standing
    from engine.ports import Admission, Call, Database, Row, Rows


@dataclass(frozen=True, slots=True)
class Audit:
    """What an operator did about a guard: `guard` is the whole record as it stood."""

    token: str
    evidence: str
    operator: str
    at: int
    guard: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What reconciling did, or with a dry run would do: the guard, and what follows for the entry."""

    standing: Standing
    evidence: Evidence
    follows: str


SUPPLIED: Final = "the step is recorded with the value: the next attempt replays it"
FOLLOWS: Final = {
    Proof.REPLAY: "the next attempt sends the same key again, while the window covers",
    Proof.ABSENCE: "the next attempt sends it as if it had not been sent",
    Proof.RECEIPT: "the step is settled: it is not sent again, and the next attempt asks for its value",
}


class Desk:
    """Reads and reconciles the guards of one store (run.callback-guard.inspect, run.callback-guard.manual)."""

    def __init__(self, database: Database, admission: Admission) -> None:
        self._db = database
        self._admission = admission
        self._guards = Guards(database)

    def guards(self, token: str | None = None) -> list[Standing]:
        """Every guard that stands, or the one. Raise `ExecutionGuardUnknown` where that one does not."""
        return self._guards.all() if token is None else [self._guards.get(token)]

    def audits(self) -> list[Audit]:
        """What was reconciled, in order."""
        return [_audit(row) for row in self._db.run(call("list_guard_audit"))[0]]

    def reconcile(
        self, token: str, *, evidence: str, operator: str, value: bytes | None = None, dry_run: bool = False
    ) -> Reconciled:
        """Release the guard `token` by `evidence`; `value` are the bytes to record for its step.

        One batch deletes the guard, appends the audit row, settles the entry and ends the lease of the attempt (rule
        G9). Raise `ExecutionGuardUnknown`, `ExecutionGuardHeld` or `ExecutionGuardEvidenceMismatch` and change nothing,
        `Config` for an `operator` that is no name.
        """
        operator = signed(operator)
        decided = decision(self._guards.get(token), evidence, valued=value is not None)
        if not dry_run:
            self._release(decided, operator=operator, value=value)
        return decided

    def supply(self, token: str, *, evidence: str, operator: str, value: bytes) -> None:
        """Record the value of a step that the receipt `evidence` settled without one, when it was reconciled.

        Raise `ExecutionGuardUnknown` unless that receipt released the guard `token` and its step is still unrecorded,
        `Config` for an `operator` that is no name.
        """
        operator = signed(operator)
        given = read(evidence, token=token)
        found = next((each for each in self.audits() if (each.token, each.evidence) == (token, given.text)), None)
        if found is None or given.proof is not Proof.RECEIPT:
            raise ExecutionGuardUnknown(token=token)
        guard = Guard.of(found.guard)
        if not self._admission.awaits_value(guard, given):
            raise ExecutionGuardUnknown(token=token)
        before = self._signed_by(guard, given, operator=operator)

        def supplies() -> None:
            recording = self._admission.supplying(guard, given, value)
            calls = (*recording, audit(guard, given, operator=operator))
            settled(
                lambda: self._db.run(*calls),
                found=lambda: self._supplied(guard, given, recording, operator=operator, before=before),
            )

        try:
            with self._admission.recording(guard, given, value):
                _kept(supplies)
        except Refused as refusal:
            if "superseded" not in refusal.constraint:
                raise
            raise ExecutionGuardUnknown(token=token) from refusal

    def _release(self, decided: Reconciled, *, operator: str, value: bytes | None) -> None:
        guard, given = decided.standing.guard, decided.evidence

        def releases() -> None:
            calls = by_hand(guard, given, operator=operator, settling=self._admission.settlement(guard, given, value))
            settled(lambda: self._db.run(*calls), found=lambda: self._reconciled(guard, given, operator=operator))

        try:
            with self._admission.settling(guard, given, value):
                _kept(releases)
        except Refused as refusal:
            raise met(refusal.constraint, decided.standing) or refusal from refusal

    def _reconciled(self, guard: Guard, given: Evidence, *, operator: str) -> list[Rows] | None:
        """Nothing to answer where the guard is gone and its audit row stands; None where that is not so."""
        gone = not self._db.run(call("find_guard", token=guard.token))[0]
        return [] if gone and self._signed_by(guard, given, operator=operator) else None

    def _supplied(
        self, guard: Guard, given: Evidence, recording: Sequence[Call], *, operator: str, before: int
    ) -> list[Rows] | None:
        """Nothing to answer where the value stands and more audit rows than `before`; None where that is not so."""
        rows = self._db.run(call("find_entry", **_entry(guard)))[0]
        names = ("value", "digest", "bytes")
        wanted = [tuple(each.arguments[name] for name in names) for each in recording if "value" in each.arguments]
        valued = any(tuple(row[4:7]) in wanted for row in rows)
        return [] if valued and self._signed_by(guard, given, operator=operator) > before else None

    def _signed_by(self, guard: Guard, given: Evidence, *, operator: str) -> int:
        """How many audit rows say that `operator` gave this evidence for the guard."""
        audits = [(each.token, each.evidence, each.operator) for each in self.audits()]
        return audits.count((guard.token, given.text, operator))


def outcome(token: str, given: Evidence, *, operator: str, valued: bool, dry_run: bool) -> dict[str, Any]:
    """What reconciling did, or with a dry run would do, as every surface tells it."""
    return {
        "token": token,
        "evidence": given.text,
        "proof": str(given.proof),
        "operator": operator.strip(),
        "valued": valued,
        "follows": follows(given, valued=valued),
        "dry_run": dry_run,
    }


def follows(given: Evidence, *, valued: bool) -> str:
    """What becomes of the step."""
    return SUPPLIED if valued else FOLLOWS[given.proof]


def decision(standing: Standing, text: str, *, valued: bool) -> Reconciled:
    """What reconciling by the evidence `text` comes to at this moment; `valued` says that a value goes with it.

    Raise `ExecutionGuardHeld` or `ExecutionGuardEvidenceMismatch`.
    """
    given = judged(text, standing)
    if valued and given.proof is not Proof.RECEIPT:
        found = "a value goes with a receipt that proves it"
        raise ExecutionGuardEvidenceMismatch(token=standing.guard.token, found=found)
    return Reconciled(standing, given, follows(given, valued=valued))


def by_hand(guard: Guard, given: Evidence, *, operator: str, settling: Sequence[Call]) -> tuple[Call, ...]:
    """The batch that releases a guard by hand, `settling` its entry among it (run.callback-guard.manual)."""
    lease = {"scope": guard.scope, "execution_id": guard.execution_id, "run_id": guard.attempt, "holder": guard.holder}
    return (
        call("require_reconcilable", guard=guard.token, proof=str(given.proof)),
        audit(guard, given, operator=operator),
        *settling,
        call("end_guarded_lease", **lease),
        call("release_guard", guard=guard.token),
    )


def met(constraint: str, standing: Standing) -> ContextfulError | None:
    """What the batch met between the guard's being read and released, as the error that says so."""
    token = standing.guard.token
    if "released" in constraint:
        return ExecutionGuardUnknown(token=token)
    if "held" in constraint:
        return ExecutionGuardHeld(token=token, lease_until=standing.lease_until)
    if "uncovered" in constraint:
        return ExecutionGuardEvidenceMismatch(token=token, found="its window has just passed")
    return None


def audit(guard: Guard, given: Evidence, *, operator: str) -> Call:
    """The statement that appends the audit row: the whole guard as it stood."""
    return call(
        "audit_guard",
        guard=guard.token,
        evidence=given.text,
        operator=operator,
        **_entry(guard),
        record=canonical_json(guard.record),
    )


def suppliable(guard: Guard, given: Evidence) -> Call:
    """The statement that refuses a value for a step which awaits that of the receipt no more."""
    return call("require_suppliable", **_entry(guard), scope=guard.scope, receipt=given.text)


def settlement(guard: Guard, given: Evidence, placed: dict[str, Any] | None) -> Call:
    """The statement that settles the guard's entry as the evidence proves; `placed` are the columns of its value."""
    entry = _entry(guard)
    match given.proof:
        case Proof.REPLAY:
            return call("free_entry", **entry)
        case Proof.ABSENCE:
            return call("clear_entry", **entry)
        case Proof.RECEIPT:
            nothing = {"value": None, "digest": None, "bytes": None}
            return call("settle_entry", **entry, receipt=given.text, **(placed or nothing))


def signed(operator: str) -> str:
    """The name of `operator` as it goes on record. Raise `Config` for what is none."""
    name = signature(operator)
    if name is None:
        raise Config(
            f"operator: {operator!r:.80} is not {NAME}", remedy="give the name of who says so: --operator anna"
        )
    return name


def _kept(batch: Callable[[], None]) -> None:
    """Run `batch`, again where a sweep doomed the value's blob before it: placing it anew waits until that is over."""
    while True:
        try:
            return batch()
        except Refused as refusal:
            if "journal.run_id" not in refusal.constraint:
                raise


def _entry(guard: Guard) -> dict[str, str]:
    """The guard's entry as its statements name it."""
    return {"execution_id": guard.execution_id, "step": guard.step, "input": guard.input}


def _audit(row: Row) -> Audit:
    token, text, operator, at, guard = row
    return Audit(token, text, operator, at, json.loads(guard))
