"""Frozen values every module speaks in: the vocabularies of the contract and its small records.

Nothing here reads time, stores or the environment; the Worker shares this module, so it imports the standard
library only. Instants are integer milliseconds since the epoch, UTC.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

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


RETRYABLE: Final = frozenset({FailureTag.TRANSIENT, FailureTag.RATE_LIMITED})
"""The only tags a schedule may retry (run.retry.retryable-classes)."""


_DAY_MS: Final = 86_400_000
_SCHEDULE_NUMBERS: Final = {
    "attempts": range(1, 10_001),
    "base_ms": range(_DAY_MS + 1),
    "max_delay_ms": range(_DAY_MS + 1),
    "jitter_ms": range(_DAY_MS + 1),
}
"""What the whole numbers of a schedule may be, in a program as in a manifest."""


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

    An effect at a destination was first admitted at `admitted_at`; `doubts` of its admissions have no answer yet, and
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

    @property
    def recorded(self) -> bool:
        """Whether the step's value stands."""
        return self.value is not None or self.blob is not None

    @property
    def outstanding(self) -> bool:
        """Whether a destination may have acted, or did, and no value stands: only an admission claims it anew."""
        return not self.recorded and (self.doubts > 0 or self.receipt is not None)


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
class Pins:
    """What a pending owner holds fixed (run.own.execution-owner, run.own.host-scope).

    A table or chunk owner pins its connector and the `content_hash` of its declaration; a host owner pins its plan
    reference and the identities its host names. `input_hash` is recorded and never compared.
    """

    plan_ref: str
    identities: tuple[tuple[str, str], ...] = ()
    connector: Connector | None = None
    input_hash: str | None = None

    def __post_init__(self) -> None:
        """Raise `PinUnusable` for a pin that no later open could be compared with."""
        for name, value in self.identities:
            if not (isinstance(name, str) and _compares([name, value])):
                # Imported where it is needed: every error speaks in the vocabularies of this module.
                from engine.errors import PinUnusable  # noqa: PLC0415

                found = ascii(value)[:60] if isinstance(value, str | float) else f"of the type {type(value).__name__}"
                raise PinUnusable(pin=ascii(name)[:60], found=found if isinstance(name, str) else "named by no text")

    @property
    def text(self) -> str:
        """The compared pins as canonical JSON, so that one string equality decides a resume."""
        pinned: dict[str, Any] = {"plan_ref": self.plan_ref, "identities": dict(sorted(self.identities))}
        if self.connector:
            pinned["connector"] = {"hash": self.connector.hash, "id": self.connector.id,
                                   "version": self.connector.version, "world": self.connector.world}  # fmt: skip
        return canonical_json(pinned)


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a failing step is tried again (run.retry.schedule): `attempts` counts the first; delays are milliseconds.

    Raise `RunRetryTagUnretryable` for a tag that no schedule retries (run.retry.unretryable-tag), `ScheduleUnusable`
    with every problem where there are others.
    """

    attempts: int = 5
    base_ms: int = 100
    factor: float = 2.0
    max_delay_ms: int = 30_000
    jitter_ms: int = 250
    backoff: str = "exponential"
    retry_on: frozenset[FailureTag] = RETRYABLE

    def __post_init__(self) -> None:
        """Check what the manifest checks of a declared one, and keep `retry_on` as the set of tags it stands for."""
        problems, strangers = list(_schedule_problems(self)), _unretryable(self.retry_on)
        if problems or strangers:
            # Imported where it is needed: every error speaks in the vocabularies of this module.
            from engine.errors import RunRetryTagUnretryable, ScheduleUnusable  # noqa: PLC0415

            refusals = [RunRetryTagUnretryable(found=tag) for tag in strangers]
            if not problems:
                raise refusals[0]
            raise ScheduleUnusable(problems=(*problems, *map(str, refusals)))
        object.__setattr__(self, "retry_on", frozenset(map(FailureTag, self.retry_on)))


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


def _compares(value: Any) -> bool:
    """Whether `value` has a canonical text that a store can keep."""
    try:
        canonical_json(value).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _schedule_problems(schedule: Schedule) -> Iterator[str]:
    """What no schedule can hold, unretryable tags aside, in the words of the manifest."""
    for name, allowed in _SCHEDULE_NUMBERS.items():
        value = getattr(schedule, name)
        if type(value) is not int or value not in allowed:
            yield _problem(name, value, f"a whole number from {allowed[0]} to {allowed[-1]}")
    if type(schedule.factor) not in {int, float} or not 1 <= schedule.factor <= 100:
        yield _problem("factor", schedule.factor, "a number from 1 to 100")
    if schedule.backoff not in ("exponential", "fixed"):
        yield _problem("backoff", schedule.backoff, '"exponential", "fixed"')
    tags: Any = schedule.retry_on
    if not (isinstance(tags, list | tuple | AbstractSet) and tags and all(isinstance(tag, str) for tag in tags)):
        yield _problem("retry_on", tags, '"Transient", "RateLimited" or both, in a list')


def _problem(name: str, found: Any, allowed: str) -> str:
    return f"{name}: found {ascii(found)[:60]}; allowed: {allowed}"


def _unretryable(tags: Any) -> list[str]:
    """The texts among `tags` that no schedule retries."""
    listed = tags if isinstance(tags, list | tuple | AbstractSet) else ()
    return sorted(str(tag) for tag in listed if isinstance(tag, str) and tag not in RETRYABLE)


def canonical_json(value: Any) -> str:
    """`value` as JSON text that is equal whenever the value is: keys sorted, no spaces, NaN refused."""
    return _CANONICAL.encode(value)


def domain_hash(domain: str, *parts: str) -> str:
    """SHA-256 (hex) of length-prefixed `parts` under a domain tag, so no two lists of parts collide by joining."""
    digest = hashlib.sha256()
    for part in (domain, *parts):
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()
