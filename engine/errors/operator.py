"""What an operator's tools refuse: credentials, places, values."""

from __future__ import annotations

from engine.errors.base import NamedError, named
from engine.errors.failures import AuthExpired, Config, Permanent, Transient


@named
class OperatorCredentialRefused(NamedError, AuthExpired):
    """A credential that proves nothing here: `reason` is one of a fixed few, `found` says it in words."""

    reason: str
    found: str
    project: str
    says = "the operator's credential is refused ({reason}): {found}"

    def __post_init__(self) -> None:
        super().__post_init__()
        token = f"contextful operator token --project {self.project}"
        self.remedy = {
            "expired": f"make a new one: {token}",
            "not-yet-valid": f"set the clock of the machine that made it, then: {token}",
            "unknown-key": (
                f"put its public key into the Worker's OPERATOR_KEYS (contextful operator key --project {self.project} "
                "prints it), or name the right key with --key"
            ),
            "wrong-project": f"make one for the project that this Worker serves: {token.rpartition(' ')[0]} NAME",
        }.get(self.reason, f"{token} makes one; CONTEXTFUL_OPERATOR_CREDENTIAL holds it")


@named
class OperatorCredentialMissing(NamedError, Config):
    """Nothing to show at the operator's door."""

    project: str
    endpoint: str
    variable: str
    says = "{endpoint} asks for an operator's credential, and {variable} is not set"
    remedy = "export {variable}=$(contextful operator token --project {project})"


@named
class OperatorEndpointUnusable(NamedError, Config):
    """What is told of where a project's operators are served cannot be used."""

    place: str
    found: str
    says = "{place}: {found}"
    remedy = 'it looks like [project.NAME] with endpoint = "https://…" and credential_env = "VARIABLE"'


@named
class OperatorEndpointUnreachable(NamedError, Transient):
    """Nobody answered for the project's Worker, and nothing was changed."""

    endpoint: str
    found: str
    says = "{endpoint} gave no usable answer ({found}); nothing was changed"
    remedy = "check the address and the network, then run the same command again"


@named
class OperatorAnswerLost(NamedError, Transient):
    """A reconciliation was sent and its answer did not come; the guard stood when it was looked at afterwards."""

    endpoint: str
    token: str
    found: str
    says = "the answer of {endpoint} was lost ({found}), and nothing shows that guard {token} was reconciled"
    remedy = "look again in a minute: contextful storage guard --token {token}; if it still stands, repeat the command"


@named
class OperatorProjectUnknown(NamedError, Config):
    """No Worker, no entry and no manifest goes by the project's name."""

    project: str
    found: str
    says = "nothing tells where the guards of project {project!r} are: {found}"
    remedy = (
        "set CONTEXTFUL_OPERATOR_ENDPOINT, add [project.{project}] to projects.toml, or run it beside the manifest "
        "of the project"
    )


@named
class OperatorProjectElsewhere(NamedError, Permanent):
    """The Worker serves one project, and its database belongs to another."""

    project: str
    found: str
    says = "this Worker is set up for project {project}, and its database belongs to {found}"
    remedy = "set PROJECT in wrangler.toml to the project of the database and deploy"


@named
class OperatorRequestUnusable(NamedError, Permanent):
    """A request of an operator's tool that the Worker cannot read, or an answer that the tool cannot."""

    found: str
    says = "{found}"
    remedy = "use the same release of contextful on the laptop and in the Worker"


@named
class OperatorKeyUnusable(NamedError, Config):
    """The private key that signs operators' tokens is not there, or is none."""

    file: str
    found: str
    says = "{file} {found}"
    remedy = "contextful operator key makes one, or --key names another file"


@named
class GuardValueUnusable(NamedError, Config):
    """What is given as a step's value is none."""

    place: str
    found: str
    says = "the value in {place} cannot be recorded: {found}"
    remedy = "give a JSON file of at most 1 MiB that holds what the step would have returned"


@named
class GuardValueUnsealed(NamedError, Permanent):
    """The value is not sealed as the store seals what it records."""

    token: str
    found: str
    says = "the value for guard {token} is refused: {found}"
    remedy = "set CONTEXTFUL_SEAL_KEY to the key of this store, as its engines have it, and run the same command again"


@named
class GuardStepRecorded(NamedError, Permanent):
    """No step waits for this value any more."""

    token: str
    found: str
    says = "the step of guard {token} waits for no value: {found}"
    remedy = "contextful status shows what is unfinished and what moves it on"
