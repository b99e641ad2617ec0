"""What callback guards refuse."""

from __future__ import annotations

from typing import Any

from engine.errors.base import NOT_NOW, NamedError, named
from engine.errors.failures import Permanent, Transient


@named
class ExecutionTransferBlocked(NamedError, Transient):
    """A guard keeps its rows from being taken over or retired (run.callback-guard.blocked)."""

    exit_code = NOT_NOW
    token: str
    evidence_class: str
    scope: str
    destination: str
    idempotency_key: str
    project: str = "NAME"
    says = (
        "{scope} is protected by guard {token} ({evidence_class}): a call to {destination} under the key "
        "{idempotency_key} may have been sent and nothing recorded what came of it"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        guard = f"--project {self.project} --token {self.token}"
        look = f"contextful storage guard {guard} shows it"
        if self.evidence_class == "replay-safe":
            self.remedy = (
                "try again once its engine's exit is recorded and its lease has lapsed: the destination still knows "
                f"the key, which is then sent again; {look}"
            )
        else:
            self.remedy = (
                f"look for the key at {self.destination}, then: contextful storage reconcile-guard {guard} "
                f"--evidence receipt:{self.idempotency_key}:ID --operator YOU; {look}"
            )


@named
class ExecutionGuardHeld(NamedError, Transient):
    """A guard's holder may still be sending: only its return, its exit or its lease's end can tell otherwise."""

    token: str
    lease_until: int
    says = "guard {token} is held: its callback may still be sending, and its owner's lease runs until {lease_until}"
    remedy = "wait until then, or for its engine's exit, and look again: contextful storage guard --token {token}"


@named
class ExecutionGuardEvidenceMismatch(NamedError, Permanent):
    """The evidence is not tied to the guard (run.callback-guard.evidence)."""

    token: str
    found: str
    says = "this evidence does not release guard {token}: {found}"
    remedy = "contextful storage guard --token {token} says which evidence would"


@named
class ExecutionGuardUnknown(NamedError, Permanent):
    """No guard stands under the token; `released` is what its audit says, where an operator reconciled it."""

    token: str
    released: dict[str, Any] | None = None
    says = "no guard {token} stands"
    remedy = "contextful storage guard lists those that do; it may have been released already"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.released:
            self.remedy = "{operator} reconciled it at {at} by {evidence}".format_map(self.released)


@named
class EffectUnsettled(NamedError, Permanent):
    """An earlier call went unanswered and the destination's window does not cover a repetition (rule G2)."""

    step: str
    execution_id: str
    idempotency_key: str
    destination: str
    says = (
        "step {step} called {destination} under the key {idempotency_key} and got no answer; the destination no longer "
        "promises to know the key, so that a repetition might act twice"
    )
    remedy = (
        "look for the key at {destination}; to give the recorded work up and start over: "
        "contextful run rewind {execution_id} --reason TEXT --force"
    )


@named
class EffectElsewhere(EffectUnsettled):
    """An earlier call went unanswered, and the step does not name the destination that it went to (rule G2).

    `destination` is where it went, `named` what the step names now.
    """

    named: str
    says = (
        "step {step} called {destination} under the key {idempotency_key} and got no answer, and it names {named} now: "
        "nothing tells whether {destination} acted, so that the effect might come about twice"
    )
    remedy = (
        "name {destination} again: within its window the call is repeated; to give the recorded work up and start "
        "over: contextful run rewind {execution_id} --reason TEXT --force"
    )


@named
class EffectSettled(NamedError, Permanent):
    """A receipt proves that the destination acted, and no value was given for the step (rule G12)."""

    step: str
    execution_id: str
    receipt: str
    token: str
    says = "step {step} is settled by the receipt {receipt} and has no recorded value: it is not sent again"
    remedy = (
        "give its value: contextful storage reconcile-guard --token {token} --evidence {receipt} --operator YOU "
        "--value FILE"
    )


@named
class EffectOverdue(NamedError, Transient):
    """A request must not leave: nothing says that its lease or the destination's window covers it (rule G3)."""

    step: str
    lapsed: str
    says = "step {step} does not send: {lapsed}"
    remedy = "it is tried again by its schedule; a request's timeout must be shorter than the destination's window"


@named
class EffectNested(NamedError, Permanent):
    """An effect at a destination was asked for inside another's callback."""

    step: str
    outer: str
    says = "step {step} calls a destination from inside the callback of step {outer}"
    remedy = "make it a step of its own after that one has returned: each call has one guard"
