"""Every named error of the engine. One base; facts are attributes; the text says what happened and what to do.

A subclass declares its facts as fields and its sentence as `says`; callers branch on the class or on `tag`,
never on text (run.retry.failure-taxonomy). `exit_code` is what a command ends with: 1 for a failure or a refused
verb, 2 for bad usage, manifest or environment, 75 where nothing is wrong but not now, 130 for canceled.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform

from engine.clock import instant
from engine.shapes import BlobRef, FailureTag

NOT_NOW = 75
BAD_USAGE = 2
CANCELED = 130

E = TypeVar("E", bound="NamedError")


class ContextfulError(Exception):
    """Base of all: a message, perhaps a remedy, and facts."""

    tag: ClassVar[FailureTag] = FailureTag.PERMANENT
    exit_code: ClassVar[int] = 1
    says: ClassVar[str] = ""
    remedy: str | None = None

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__(message)
        self._message = message
        self.remedy = remedy or type(self).remedy

    @property
    def facts(self) -> dict[str, Any]:
        """The declared facts by name: what the sentence was made of."""
        return {}

    @property
    def message(self) -> str:
        """The sentence without the remedy."""
        return self._message

    def __str__(self) -> str:
        """The sentence, and the next step where there is one."""
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


class NamedError(ContextfulError):
    """An error whose facts are dataclass fields and whose text is `says` (and `remedy`) filled in with them."""

    def __post_init__(self) -> None:
        shown = {name: _shown(name, value) for name, value in self.facts.items()}
        remedy = type(self).remedy
        super().__init__(self.says.format_map(shown), remedy=remedy.format_map(shown) if remedy else None)

    @property
    def facts(self) -> dict[str, Any]:
        """The declared facts by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]


def _shown(name: str, value: Any) -> Any:
    return instant(value) if name.endswith(("_until", "_at")) else value


@dataclass_transform(kw_only_default=True, eq_default=False)
def named(cls: type[E]) -> type[E]:
    """Make a class of declared facts an error: keyword-only fields, told apart by identity as exceptions are."""
    return dataclass(kw_only=True, eq=False)(cls)


# Failures of work. A source or an effect raises one of these; the tag decides whether a schedule tries again.


class Transient(ContextfulError):
    """May succeed if tried again as it is."""

    tag = FailureTag.TRANSIENT


class RateLimited(ContextfulError):
    """The other side asks to wait, `wait_ms` where it said for how long."""

    tag = FailureTag.RATE_LIMITED

    def __init__(self, message: str, *, wait_ms: int | None = None, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.wait_ms = wait_ms


class Permanent(ContextfulError):
    """Fails the same way however often it is tried."""


class SchemaIncompatible(ContextfulError):
    """Data and declared or committed types do not go together."""

    tag = FailureTag.SCHEMA_INCOMPATIBLE


class AuthExpired(ContextfulError):
    """The other side refused the credential."""

    tag = FailureTag.AUTH_EXPIRED


class Config(ContextfulError):
    """The declaration or the environment is wrong."""

    tag = FailureTag.CONFIG
    exit_code = BAD_USAGE


class StorageFailure(ContextfulError):
    """A store could not do its part: disk, database or binding."""

    tag = FailureTag.STORAGE


class UnknownConnector(ContextfulError):
    """No source of that kind or entry."""

    tag = FailureTag.UNKNOWN_CONNECTOR
    exit_code = BAD_USAGE


class Canceled(ContextfulError):
    """Stopped on request (run.cancel.abandoned-work)."""

    tag = FailureTag.CANCELED
    exit_code = CANCELED


# The declaration and the environment.


@named
class SecretNotFound(NamedError, Config):
    """A `${NAME}` of the manifest stands for a variable that is not set; `also` holds further (name, path) pairs."""

    tag = FailureTag.SECRET_NOT_FOUND
    name: str
    path: str
    also: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        wanted = ((self.name, self.path), *self.also)
        needs = "; ".join(f"{path} needs the secret {name}" for name, path in wanted)
        names = ", ".join(dict.fromkeys(name for name, _ in wanted))
        remedy = f"set the variable{'s' * (', ' in names)} {names}"
        ContextfulError.__init__(self, f"{needs}, and the environment holds none", remedy=remedy)


@named
class ManifestInvalid(NamedError, Config):
    """A manifest cannot be used; `problems` holds every one of them as `key path: found, allowed`."""

    file: str
    problems: tuple[str, ...]
    says = "{file}: {count} found\n{listed}"

    def __post_init__(self) -> None:
        count = f"{len(self.problems)} problem{'s' * (len(self.problems) != 1)}"
        listed = "\n".join(f"  - {problem}" for problem in self.problems)
        ContextfulError.__init__(self, self.says.format(file=self.file, count=count, listed=listed))


@named
class InitRefused(NamedError, Config):
    """`contextful init` would have to overwrite a file, or cannot write it."""

    file: str
    reason: str
    says = "{file} is not written: {reason}"
    remedy = "edit what is there, or run contextful init in another folder"


@named
class PipelineUnknown(NamedError, Config):
    """The manifest declares no such pipeline; `hint` names those it does."""

    pipeline: str
    hint: str
    says = "the manifest has no pipeline {pipeline!r}"
    remedy = "{hint}"


@named
class TableUnknown(NamedError, Config):
    """No such table at `place`; `hint` names those there are."""

    table: str
    place: str
    hint: str
    says = "{place} has no table {table!r}"
    remedy = "{hint}"


@named
class RunUnknown(NamedError, Config):
    """No run of that id is recorded."""

    run_id: str
    says = "no run {run_id!r} is recorded"
    remedy = "contextful run list names the latest ones"


@named
class ConfirmationNeeded(NamedError, Config):
    """A verb that takes something away was neither confirmed on a terminal nor by `--yes`."""

    action: str
    says = "{action}, and nobody is here to confirm it"
    remedy = "add --yes to do it"


@named
class PositionSpelling(NamedError, Config):
    """What `--to` says is no position of the table."""

    table: str
    found: str
    expected: str
    says = "{found!r} is no position of {table}; expected {expected}"
    remedy = "contextful pipeline reset without --to starts over from nothing"


@named
class InstantSpelling(NamedError, Config):
    """An instant in another spelling than the two admitted."""

    found: str
    says = "{found!r} is no instant"
    remedy = "write a UTC instant such as 2026-01-31T06:00:00Z, or YYYY-MM-DD for the first instant of a day"


@named
class SiteIdUnresolved(NamedError, Config):
    """No usable site id at startup (run.record.site-id-unresolved, run.record.site-id-length)."""

    reason: str
    says = "the site id is not resolved: {reason}"
    remedy = "declare project.site_id (1 to 64 letters, digits, '.', '_' or '-') or project.site_id_env"


@named
class HistoryBoundSpelling(NamedError, Config):
    """A window's lower bound in another spelling than the two admitted (run.record.bound-spelling)."""

    found: str
    says = "{found!r} is no lower bound of a history window"
    remedy = "write YYYY-MM-DD or a UTC instant such as 2026-01-31T06:00:00Z"


@named
class RunRetryTagUnretryable(NamedError, Config):
    """The `retry_on` at `place` names a tag no schedule may retry (run.retry.unretryable-tag)."""

    found: str
    place: str = "retry_on"
    says = "{place} names {found}, which no schedule retries"
    remedy = "name Transient, RateLimited or both"


@named
class CapabilityUnwired(NamedError, Config):
    """The running profile has no such capability (run.journal.unwired-capability)."""

    capability: str
    profile: str
    says = "the profile {profile} does not wire {capability}"
    remedy = "choose a profile that does, or leave it out of the declaration"


# Stores.


@named
class Refused(NamedError, StorageFailure):
    """A statement met a constraint, so its whole batch was rolled back. Stores map it to what it means."""

    constraint: str
    says = "refused by the store: {constraint}"


@named
class StorageBusy(NamedError, StorageFailure):
    """Another process kept the write lock beyond all patience."""

    file: str
    seconds: int
    says = "{file} stayed locked by another process for {seconds} s"
    remedy = "see which process holds it open; a stopped one releases it when it continues or ends"


@named
class StorageUnusable(NamedError, StorageFailure):
    """The store answered with an error of its own: a full disk, a damaged or unreadable file."""

    place: str
    reason: str
    says = "{place}: {reason}"
    remedy = "make room or repair it and run again: what was committed stands, and the run resumes"


@named
class StorageCapabilityMissing(NamedError, StorageFailure):
    """The profile lacks a part a run needs (run.journal.storage-incomplete)."""

    exit_code = BAD_USAGE
    profile: str
    missing: str
    says = "the profile {profile} is incomplete: {missing}"
    remedy = "contextful storage check names every part"


@named
class StorageProfileUnsupported(NamedError, StorageFailure):
    """No such profile, or one that cannot keep what is asked of it (run.journal.storage-unsupported)."""

    exit_code = BAD_USAGE
    profile: str
    known: str
    says = "the storage profile {profile!r} is not supported; known: {known}"
    remedy = "set CONTEXTFUL_STORAGE_PROFILE to one of these"


@named
class ExecutionSchemaIncompatible(NamedError, StorageFailure):
    """The execution database is of another schema than this executable's (run.journal.execution-schema)."""

    found: str
    supported: str
    says = "the execution database is of schema {found}, this executable supports {supported}"
    remedy = "use the release that matches, or contextful storage initialize to migrate"


@named
class ExecutionRecoveryMismatch(NamedError, StorageFailure):
    """Execution state is missing or belongs to another project (run.journal.execution-recovery)."""

    found: str
    says = "the execution state does not match the project: {found}"
    remedy = (
        "restore it beside the corpus, or give up its recorded work on purpose: "
        "contextful storage initialize, then contextful catalog rebuild"
    )


@named
class BlobMissing(NamedError, StorageFailure):
    """A row names a blob that no store holds (run.journal.missing-blob)."""

    reference: BlobRef
    says = "the blob {reference.sha256} ({reference.bytes} bytes) is referenced and missing"
    remedy = "restore it, or rewind the execution: contextful status names it"


# Steps.


@named
class StepFailed(NamedError):
    """A step's answer is a failure: not retryable, or its schedule is spent (run.retry.step-failed)."""

    step: str
    failure: ContextfulError
    attempts: int
    says = "step {step} failed after {attempts} attempt(s): {failure}"

    @property
    def facts(self) -> dict[str, Any]:
        """The step, the attempts and the underlying tag."""
        return {
            "step": self.step,
            "attempts": self.attempts,
            "underlying": str(self.failure.tag),
            "failure": self.failure,
        }

    @property
    def tag(self) -> FailureTag:  # type: ignore[override]
        """The tag of the failure underneath."""
        return self.failure.tag


@named
class ValueUnsupported(NamedError, Permanent):
    """An effect returned what no journal can hold."""

    step: str
    found: str
    says = "step {step} returned {found}; a recorded value is JSON or bytes"
    remedy = "return JSON values (finite numbers, text, lists, mappings with text keys) or bytes"


@named
class JoinFailed(NamedError, Permanent):
    """A branch failed before its join (run.journal.fan-out-join)."""

    join: str
    branch: str
    failure: str
    says = "branch {branch} of join {join} failed: {failure}"


# Owners.


@named
class ExecutionLive(NamedError, Transient):
    """A live attempt holds the scope (run.own.live-owner)."""

    exit_code = NOT_NOW
    scope: str
    attempt: str
    lease_until: int
    says = "{scope} is held by attempt {attempt}, whose lease runs until {lease_until}"
    remedy = "wait for it, for instance with --wait 60s"


@named
class ExecutionSuperseded(NamedError, Transient):
    """This attempt is no longer its owner's active one (run.journal.current-owner)."""

    scope: str
    attempt: str
    says = "attempt {attempt} no longer holds {scope}: another attempt took it over"
    remedy = "contextful status shows who holds it"


@named
class ExecutionFinished(NamedError, Permanent):
    """A step of a finished once-only execution was never recorded."""

    scope: str
    step: str
    says = "{scope} is finished and recorded no step {step}"
    remedy = "open the scope without once=True to start over"


@named
class ExecutionPinMismatch(NamedError, Permanent):
    """A pin moved while the owner is pending (run.own.pinned-plan-changed, run.own.pin-mismatch-recovery)."""

    scope: str
    execution_id: str
    pinned: str
    asked: str
    says = "{scope} has the pending execution {execution_id} under pins {pinned}, and this run asks for {asked}"
    remedy = (
        "restore the recorded build and resume it to completion, or give its recorded work up: "
        "contextful run rewind {execution_id} --reason TEXT"
    )


@named
class ExecutionRewindNotPending(NamedError, Permanent):
    """No pending host or table owner holds that execution (run.own.rewind-not-pending)."""

    execution_id: str
    says = "no pending owner holds execution {execution_id}"
    remedy = "contextful status lists what is pending"


@named
class ExecutionRewindPlanCurrent(NamedError, Permanent):
    """Nothing asked for another plan than the pending one (run.own.rewind-plan-current)."""

    execution_id: str
    plan_ref: str
    says = "execution {execution_id} is pending under the plan every attempt asked for ({plan_ref})"
    remedy = "its next fire resumes it; to give its recorded work up all the same, add --force"


@named
class ExecutionRewindUnsafe(NamedError, Transient):
    """Something of the execution is still alive (run.own.rewind-unsafe); `--force` does not change that."""

    exit_code = NOT_NOW
    execution_id: str
    alive: str
    says = "execution {execution_id} cannot be retired: {alive}"
    remedy = "wait for it or stop it, then rewind again"


@named
class ExecutionPending(NamedError, Permanent):
    """A verb that moves a scope's position or rows met an execution that is not finished."""

    scope: str
    execution_id: str
    state: str
    says = "{scope} has the unfinished execution {execution_id} ({state})"
    remedy = (
        "finish it with contextful pipeline run, or give its recorded work up: "
        "contextful run rewind {execution_id} --reason TEXT --force"
    )


@named
class AdmittedOwnerMutation(NamedError, Permanent):
    """A guarded callback tried to move the owner or lease that admits it (run.journal.guard-callback)."""

    scope: str
    says = "the running callback is admitted by {scope} and cannot move it"
    remedy = "do that after the callback has returned"


# Positions, sources and the corpus.


@named
class CursorFieldMismatch(NamedError, Config):
    """The stored watermark is another column's (run.advance.field-rename)."""

    table: str
    stored: str
    declared: str
    says = "the position of {table} is a watermark of {stored!r}, and its manifest declares incremental = {declared!r}"
    remedy = "restore the declaration, or start over: contextful pipeline reset"


@named
class CursorPositionUnorderable(NamedError, Permanent):
    """A row's clock cannot be ordered among the others (run.advance.unorderable-position)."""

    table: str
    field: str
    found: str
    place: str
    says = "{table}.{field} cannot be ordered: {found} ({place})"
    remedy = "name a column whose values are all numbers, all RFC 3339 instants or all plain text as incremental"


@named
class SourceShape(NamedError, Permanent):
    """What the source answered is not what the manifest says."""

    place: str
    path: str
    found: str
    expected: str
    says = "{place}: at {path!r} stood {found}, expected {expected}"
    remedy = "contextful pipeline preview shows the first page; mend `records`, `paginate` or the column types"


@named
class SourceLoop(NamedError, Permanent):
    """A page leads to one already asked in the same walk."""

    place: str
    position: str
    says = "{place} leads back to {position}, which this walk has asked before"
    remedy = "mend `paginate`, or report it to the API's owner: following it would never end"


@named
class SourceOriginRefused(NamedError, Permanent):
    """A link or redirect to another origin while secret headers are set."""

    place: str
    origin: str
    target: str
    says = "{place} leads from {origin} to {target}, and secrets go to the source's own origin only"
    remedy = "point the source's url at that origin if it is meant"


@named
class ConnectorBoundHit(NamedError, Transient):
    """A source struck `linear-memory` or `call-deadline`, `bound` says which (run.retry.bound-hit-is-transient)."""

    place: str
    bound: str
    limit: str
    says = "{place} struck the bound {bound} ({limit})"


@named
class SnapshotIncomplete(NamedError, Permanent):
    """A replacing table's source ended without its complete inventory (run.advance.snapshot-completion)."""

    table: str
    says = "the source of {table} ended before its inventory was complete, so nothing was replaced"
    remedy = "run again; a source of a replacing table must say snapshot_complete on its last pull"


@named
class StoreSchemaIncompatible(NamedError, SchemaIncompatible):
    """A column's type does not merge with what stands (run.own.stage-schema)."""

    table: str
    column: str
    standing: str
    found: str
    place: str
    says = "{table}.{column} is {standing} and cannot take {found} ({place})"
    remedy = "declare columns.{column}.type in the manifest"


@named
class ColumnNameRefused(NamedError, SchemaIncompatible):
    """A column's name cannot stand in a table: empty, injected, or told from another by case alone."""

    table: str
    column: str
    reason: str
    place: str
    says = "{table} cannot take a column named {column!r}: {reason} ({place})"
    remedy = "rename it in what the source answers, or ask it for other fields"


@named
class CommitContended(NamedError, Transient):
    """Every number a commit tried for went to another one."""

    table: str
    attempts: int
    says = "{attempts} other commits to {table} came first, one after the other"
    remedy = "run again: what was read is recorded and lands without being asked for anew"


@named
class LateType(NamedError, SchemaIncompatible):
    """A pull declares a type for a column an earlier staged batch carried untyped."""

    table: str
    column: str
    declared: str
    says = "{table}.{column} was staged without a type and is now declared {declared}"
    remedy = "declare the type from the first pull on; the next fire pulls afresh"


@named
class ReadRefused(NamedError, Config):
    """The read face takes one SELECT and nothing that writes."""

    reason: str
    says = "the statement is refused: {reason}"
    remedy = "write one SELECT over the tables contextful read lists"


# Awakeables.


@named
class AwakeableUnknown(NamedError, Permanent):
    """No row for the token (run.suspend.unknown-token)."""

    token: str
    says = "no awakeable has the token {token}"


@named
class AwakeableAlreadyResolved(NamedError, Permanent):
    """A second resolution with another payload (run.suspend.conflicting-resolution)."""

    token: str
    says = "the awakeable {token} is resolved with another payload, which stands"


@named
class AwakeableTimedOut(NamedError, Permanent):
    """The deadline passed first (run.suspend.expired-token)."""

    token: str
    deadline_at: int
    says = "the awakeable {token} timed out at {deadline_at}"
