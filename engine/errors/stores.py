"""What a store refuses, or could not do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from engine.errors.base import BAD_USAGE, NOT_NOW, NamedError, named
from engine.errors.failures import StorageFailure

if TYPE_CHECKING:
    from engine.shapes import BlobRef


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
class EngineClosed(NamedError, StorageFailure):
    """An engine was asked for something after it was closed, and its stores with it."""

    says = "the engine is closed, and its stores with it"
    remedy = "start another with engine.start() and work inside its with block: what was recorded stands"


@named
class StorageUnusable(NamedError, StorageFailure):
    """The store answered with an error of its own: a full disk, a damaged or unreadable file."""

    place: str
    reason: str
    says = "{place}: {reason}"
    remedy = "make room or repair it and run again: what was committed stands, and the run resumes"


@named
class StorageBindingUnavailable(NamedError, StorageFailure):
    """The private binding gave no usable answer (run.journal.d1-transport).

    `applied` is "unknown" where a write was sent whose answer is lost: it is never sent again. Otherwise it is "no":
    nothing was sent, or the request only read.
    """

    place: str
    reason: str
    applied: Literal["no", "unknown"]
    says = "{place} gave no answer ({reason}); applied: {applied}"
    remedy = "run again when it answers: what was recorded stands, and what was sent is known by its own token"


@named
class StorageProtocolMismatch(NamedError, StorageFailure):
    """The Worker speaks another protocol than this engine."""

    exit_code = BAD_USAGE
    place: str
    speaks: int
    asked: int
    says = "the Worker at {place} speaks protocol {speaks}, this engine speaks {asked}"
    remedy = "deploy the older of the two anew: the Worker first, then the engine's image"


@named
class StorageLimitExceeded(NamedError, StorageFailure):
    """A statement holds more than the store takes; it was not sent."""

    statement: str
    found: str
    limit: str
    says = "the statement {statement} has {found}, and D1 takes {limit}"


@named
class StorageCapabilityMissing(NamedError, StorageFailure):
    """The profile lacks a part a run needs (run.journal.storage-incomplete)."""

    exit_code = BAD_USAGE
    profile: str
    missing: str
    says = "the profile {profile} is incomplete: {missing}"
    remedy = "set right what is named and run again; contextful storage check tells what else the store lacks"


@named
class StorageProfileUnsupported(NamedError, StorageFailure):
    """No such profile, or one that cannot keep what is asked of it (run.journal.storage-unsupported)."""

    exit_code = BAD_USAGE
    profile: str
    known: str
    found: str = "is not supported"
    says = "the storage profile {profile!r} {found}; known: {known}"
    remedy = "set CONTEXTFUL_STORAGE_PROFILE to one of these"


@named
class ExecutionSchemaIncompatible(NamedError, StorageFailure):
    """The execution database is of another schema than this executable's (run.journal.execution-schema)."""

    found: str
    supported: str
    token: str | None = None
    says = "the execution database is of schema {found}, this executable supports {supported}"
    remedy = "use the release that matches, or contextful storage initialize to migrate"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.token:
            # A global guard records no idempotency key, so no evidence ties to it (run.callback-guard.legacy-guard).
            self.remedy = (
                f"its global guard {self.token} stands: reconcile it with the release that wrote it, then run "
                "contextful storage initialize"
            )


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


@named
class SealKeyUnusable(NamedError, StorageFailure):
    """The key that contents are sealed under is none; what it is instead is not shown."""

    exit_code = BAD_USAGE
    variable: str
    says = "{variable} is no key: 32 bytes in base64 or hexadecimal are expected"
    remedy = "openssl rand -base64 32 makes one for a new corpus; an old corpus opens under its own alone"


@named
class SealBroken(NamedError, StorageFailure):
    """A sealed content does not open under this key (run.journal.storage-unsupported)."""

    name: str
    reason: str
    says = "{name} does not open: {reason}"
    remedy = "set CONTEXTFUL_SEAL_KEY to the key the corpus was sealed under, or take the object out of a backup"


@named
class StoreInUse(NamedError, StorageFailure):
    """An engine is at work in the store, and what is asked for needs it still (run.journal.d1-backup)."""

    exit_code = NOT_NOW
    holder: str
    until_at: int
    says = "an engine is at work: {holder}, until {until_at} at least"
    remedy = "stop it, or let it finish, and try again"


@named
class BackupUnusable(NamedError, StorageFailure):
    """A folder that a backup cannot be written to or read from."""

    folder: str
    found: str
    says = "the backup {folder}: {found}"
    remedy = "name another folder"
