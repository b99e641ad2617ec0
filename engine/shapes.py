"""Frozen values every module speaks in: the vocabularies of the contract and its small records.

Nothing here reads time, stores or the environment; the Worker shares this module, so it imports the standard
library only. Instants are integer milliseconds since the epoch, UTC.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)

INLINE_LIMIT: Final = 1 << 20
"""Bytes of the largest value the journal stores inside its row (run.journal.inline-cutoff)."""


class FailureTag(StrEnum):
    """What a failure is, whoever raised it (run.retry.failure-taxonomy). Callers branch on this, never on text."""

    TRANSIENT = "Transient"
    RATE_LIMITED = "RateLimited"
    PERMANENT = "Permanent"
    SCHEMA_INCOMPATIBLE = "SchemaIncompatible"
    AUTH_EXPIRED = "AuthExpired"
    CONFIG = "Config"
    STORAGE = "Storage"
    UNKNOWN_CONNECTOR = "UnknownConnector"
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105 - a tag's spelling, not a secret
    CANCELED = "Canceled"


class RunStatus(StrEnum):
    """Where one attempt stands (run.record.status-set)."""

    PENDING = "pending"
    RUNNING = "running"
    WAITING = "waiting"
    SUCCESS = "success"
    PARTIAL_FAILURE = "partial_failure"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def terminal(self) -> bool:
        """Whether nothing moves a run out of this status."""
        return self not in {RunStatus.PENDING, RunStatus.RUNNING, RunStatus.WAITING}


class FireState(StrEnum):
    """Where one execution of a whole pipeline stands."""

    REQUESTED = "requested"
    RUNNING = "running"
    PAUSED = "paused"
    PARTIAL = "partial"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"


class CursorKind(StrEnum):
    """How a source's position moves (run.advance.cursor-kind)."""

    MONOTONIC = "monotonic"
    OPAQUE_TOKEN = "opaque-token"  # noqa: S105 - a kind's spelling, not a secret
    SNAPSHOT_ID = "snapshot-id"


class AwakeableState(StrEnum):
    """Where a wait for an outside party stands."""

    PENDING = "pending"
    RESOLVED = "resolved"
    TIMED_OUT = "timed_out"


class Phase(StrEnum):
    """Which of a run's two rows in the reserved table this is (run.record.reserved-table)."""

    PLAN = "plan"
    COMMIT = "commit"


class WriteMode(StrEnum):
    """What a commit does to the rows before it."""

    APPEND = "append"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class EntryKey:
    """What names one recorded step: its execution, its label and the hash of its input (run.journal.entry-key)."""

    execution_id: str
    step: str
    input: str

    @property
    def idempotency_key(self) -> str:
        """The key every request of this step carries, alike on every re-entry (run.journal.idempotency-key)."""
        return domain_hash("contextful.idempotency", self.execution_id, self.step, self.input)[:32]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run's hold on an owner: the scope, its execution, the run id that holds it and the engine behind it."""

    scope: str
    execution_id: str
    run_id: str
    holder: str

    @property
    def columns(self) -> dict[str, str]:
        """The attempt as its owner's row names it."""
        return {
            "scope": self.scope,
            "execution_id": self.execution_id,
            "run_id": self.run_id,
            "holder": self.holder,
        }


@dataclass(frozen=True, slots=True)
class BlobRef:
    """Names a value stored outside its row: the SHA-256 of its bytes (hex) and their count."""

    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A journal row: pending under `claim` of `run_id`, or recorded as `value` or `blob`.

    An effect was first admitted to `destination` at `admitted_at`; `doubts` of its admissions have no answer yet, and
    `receipt` is the evidence that settled it.
    """

    key: EntryKey
    claim: str | None
    run_id: str | None
    attempts: int
    next_attempt_at: int | None
    value: bytes | None
    blob: BlobRef | None
    admitted_at: int | None = None
    doubts: int = 0
    receipt: str | None = None
    destination: str | None = None

    @property
    def recorded(self) -> bool:
        """Whether the step's value stands."""
        return self.value is not None or self.blob is not None

    @property
    def outstanding(self) -> bool:
        """Whether a destination may have acted, or did, and no value stands: only an admission claims it anew."""
        return not self.recorded and (self.doubts > 0 or self.receipt is not None)

    def elsewhere(self, destination: str) -> bool:
        """Whether it was admitted to another destination than this. Of one that is not known nothing is said."""
        return self.destination not in {None, destination}


@dataclass(frozen=True, slots=True)
class Awakeable:
    """A wait for an outside party: `token` is its single-use name, `deadline` the instant it times out."""

    token: str
    execution_id: str
    step: str
    created_at: int
    deadline: int
    state: AwakeableState = AwakeableState.PENDING
    payload_sha256: str | None = None
    subject: str | None = None

    @property
    def entry_key(self) -> EntryKey:
        """Where the payload is recorded: the awaited step under sha256("awakeable:" + token)."""
        resume = hashlib.sha256(f"awakeable:{self.token}".encode()).hexdigest()
        return EntryKey(self.execution_id, self.step, resume)


@dataclass(frozen=True, slots=True)
class Connector:
    """A source implementation; `hash` changes when its code does (run.own.admission-pin)."""

    id: str
    version: str
    hash: str
    world: str = "native"


@dataclass(frozen=True, slots=True)
class Pull:
    """One answer of a source.

    `rows` are mappings, an Arrow table or an Arrow record batch; `position` is the source's own, JSON-valued, and names
    where the next pull goes on; `more` says whether there is one. `snapshot_complete` says that the walk so far holds
    the source's complete inventory. `types` declares column types, `skipped` counts inputs the source declined to land.
    `unchanged`, of a walk's only pull and without rows, says that the input is the one at the position that was asked:
    nothing is landed, replaced or moved.
    """

    rows: Any = ()
    position: Any = None
    more: bool = False
    snapshot_complete: bool = False
    types: dict[str, str] = field(default_factory=dict)
    skipped: int = 0
    unchanged: bool = False


def canonical_json(value: Any) -> str:
    """`value` as JSON text that is equal whenever the value is: keys sorted, no spaces, NaN refused."""
    return _CANONICAL.encode(value)


def is_utf8(text: str) -> bool:
    """Whether `text` can be written as UTF-8: a lone surrogate, which JSON and the environment can hold, cannot."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def domain_hash(domain: str, *parts: str) -> str:
    """SHA-256 (hex) of length-prefixed `parts` under a domain tag, so no two lists of parts collide by joining."""
    digest = hashlib.sha256()
    for part in (domain, *parts):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()
