"""What the engine asks of the world outside it.

The docstrings are the contract; adapters live in `local`, `postgres`, `d1` and `r2`. A port is named for the thing,
an adapter for its technology.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from engine.guards.asked import Admitted, Asked
    from engine.guards.evidence import Evidence
    from engine.guards.guard import Guard
    from engine.guards.rules import Mark
    from engine.meters import Quota, Reply
    from engine.shapes import Attempt, Awakeable, BlobRef, Entry, EntryKey

Row = tuple[Any, ...]
Rows = list[Row]


@dataclass(frozen=True, slots=True)
class Statement:
    """A named SQL statement: its text, its parameters, whether it only reads, whether it must reach the disk."""

    name: str
    text: str
    parameters: tuple[str, ...]
    reads: bool
    durable: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A statement with its arguments. The parameter `now` is the store's to fill: one clock judges."""

    statement: Statement
    arguments: dict[str, Any]


class Database(Protocol):
    """A SQL store reachable one atomic batch at a time."""

    def run(self, *calls: Call) -> list[Rows]:
        """Run `calls` in order, all or nothing, and return the rows of each.

        Raise `Refused` naming the constraint that stopped the batch, `StorageBusy` when another process kept the
        write lock beyond all patience, `StorageUnusable` when the store itself failed. The batch is on disk when it
        returns if any of its statements is durable; otherwise it is visible, and on disk with the next durable one.
        """

    def now(self) -> int:
        """The store's instant, in milliseconds: the clock that judges leases, waits and windows."""


class JournalStore(Protocol):
    """Keeps the recorded values of steps, one row a key (run.journal.storage-ports).

    `ledger` calls are statements on the catalog that go before the journal's own change: in its batch where journal
    and catalog share a database, in a batch of their own before it elsewhere.
    """

    def find(self, key: EntryKey) -> Entry | None:
        """The row under `key`, pending or recorded."""

    def claim(self, key: EntryKey, *, attempt: Attempt, token: str, ledger: Sequence[Call] = ()) -> Entry:
        """Claim `key` under `token` for the active `attempt` and return the row that stands.

        A key nobody claimed, or whose claim is of another attempt than the owner's active one, becomes ours; a claim
        of the same attempt and a recorded value stand (run.journal.entry-key, run.journal.claim-takeover). Raise
        `ExecutionSuperseded` when `attempt` is not its owner's active one (run.journal.current-owner).
        """

    def renew(self, key: EntryKey, *, token: str, attempts: int, next_attempt_at: int | None) -> None:
        """Record how many attempts the claim has used and when the next is due (run.retry.not-before)."""

    def surrender(self, key: EntryKey, *, token: str, next_attempt_at: int | None) -> None:
        """Give the claim up after the step failed: whoever calls next claims it with a fresh budget.

        `next_attempt_at` is the instant before which the other side wants no other try, if it named one.
        """

    def park(self, key: EntryKey, *, token: str) -> None:
        """Give the claim up and keep its count and its instant: the step waits (run.retry.waiting-state)."""

    def drop_claims(self, execution_id: str) -> None:
        """Free every pending row: the life of the attempt that claimed them is over, and it goes on as itself."""

    def record(self, key: EntryKey, *, attempt: Attempt, token: str, value: bytes, ledger: Sequence[Call] = ()) -> None:
        """Record `value` once, inline or as a blob by its size (run.journal.step-output, run.journal.one-cutoff).

        Raise `ExecutionSuperseded` when the claim or the attempt is no longer ours; the ledger's statements stand.
        """

    def withdraw(self, key: EntryKey, *, token: str, ledger: Sequence[Call] = ()) -> None:
        """Take a claim back unrecorded: an empty pull leaves no row (run.journal.opt-out)."""

    def value(self, entry: Entry) -> bytes:
        """The recorded bytes of `entry`, from its row or its blob. Raise `BlobMissing` where the blob is gone."""

    def entries(self, execution_id: str) -> list[Entry]:
        """Every row of an execution, by step."""

    def collection(self, execution_id: str) -> Sequence[Call]:
        """The statements that delete an execution's rows inside the transaction that retires its owner."""

    def collect(self, execution_id: str) -> None:
        """Delete an execution's rows where `collection` cannot; repeating it is harmless (run.journal.collection)."""

    def pull_collection(self, execution_id: str, *, below: int) -> Sequence[Call]:
        """The statements that delete the pulls numbered below `below` in a checkpoint's own transaction."""

    def collect_pulls(self, execution_id: str, *, below: int) -> None:
        """Delete them where `pull_collection` cannot; repeating it is harmless (run.own.checkpoint-resume)."""

    def recollect(self) -> None:
        """Repeat the deletes that a crash after a retirement left undone; every open calls it."""

    def unreferenced(self, *, older_than: int) -> Sequence[str]:
        """The digests that `sweep` would take at this moment; nothing is changed."""

    def sweep(self, *, older_than: int) -> list[str]:
        """Delete each unreferenced blob last used before the instant `older_than` (run.journal.blob-sweep)."""


class Blobs(Protocol):
    """Contents named by the SHA-256 of their bytes (run.journal.blob-write)."""

    def put(self, content: bytes) -> BlobRef:
        """Keep `content`; writers of one content converge, and a repeated put refreshes its age."""

    def get(self, reference: BlobRef) -> bytes:
        """The content, its digest verified. Raise `BlobMissing` when it is not there whole."""

    def sweep(self, *, older_than: int) -> list[str]:
        """Doom what nothing references and nobody used since the instant `older_than`, delete it, and name it.

        A doomed content takes no new reference: who puts it again waits or writes it anew (run.journal.blob-sweep).
        """


class Objects(Protocol):
    """Named immutable contents of the corpus: a local folder or a bucket. Names are relative, parted by `/`."""

    def get(self, name: str) -> bytes | None:
        """The content, or None when nothing has that name."""

    def create(self, name: str, content: bytes) -> bool:
        """Create `name` durably and whole unless it exists; tell whether this call did.

        Raise `StorageUnusable` only where it is certain that nothing was created and nothing will be; any other
        failure leaves it open, and the caller reads.
        """

    def put(self, name: str, content: bytes) -> None:
        """Write `name` durably and whole, over what was there."""

    def put_all(self, contents: Iterable[tuple[str, Callable[[], bytes]]]) -> None:
        """`put` each, durable together when it returns: what a commit's parts go through.

        Each content is made by the thread that writes it, so that some are made while others are written.
        """

    def list(self, prefix: str) -> Iterator[str]:
        """The names under `prefix`, sorted."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete each that exists."""

    def unfinished(self, *, before: int) -> Sequence[str]:
        """What writers that crashed left half-written and untouched since the instant `before`; no object's name."""

    def forget(self, unfinished: Iterable[str]) -> None:
        """Delete each of these leavings that is still there."""

    def turn(self, prefix: str) -> AbstractContextManager[None]:
        """Hold others off `prefix` for a block where that is cheap, and only for a while: a courtesy, never a guard."""

    def local(self, name: str, *, sha256: str | None = None) -> Path:
        """A local file that holds the object's content, for readers that want a path.

        Whoever knows the content's SHA-256 (hex) gives it: a copy of it that is here already is then taken unasked.
        """


class Admission(Protocol):
    """Admits callbacks to destinations under guards and settles them: the engine's side of the guard protocol.

    Strict where the profile wires `strict-guards`: one store that everybody reaches in one place, claim and guard in
    one batch. Cooperative elsewhere: a guard holds every engine that works on these files, and no copy of them.
    """

    def admit(self, asked: Asked) -> Admitted | Entry:
        """Claim the entry and bind every row the callback protects, or none (run.callback-guard.acquire).

        Return the entry where it is recorded or a sibling's. Raise `ExecutionTransferBlocked` where another guard
        protects one of the rows, `ExecutionSuperseded` where one is not as asked, `EffectUnsettled` and `EffectSettled`
        where the entry must not be sent again.
        """

    def record(self, admitted: Admitted, value: bytes) -> None:
        """Release the guard and record the value, so that no crash leaves one without the other.

        Raise `ExecutionSuperseded`, and leave the guard, where claim, attempt or guard is no longer the caller's.
        """

    def settle(self, admitted: Admitted, mark: Mark) -> None:
        """Release the guard without a value; `mark` says what becomes of the entry."""

    def undo(self, scope: str) -> None:
        """Undo what lost answers left unsettled under `scope`, before its attempt ends."""

    def settlement(self, guard: Guard, given: Evidence, value: bytes | None) -> Sequence[Call]:
        """Settle the entry by an operator's evidence: the statements that join the batch releasing the guard."""

    def supplying(self, guard: Guard, given: Evidence, value: bytes) -> Sequence[Call]:
        """Record the value of an entry that the receipt `given` settled: the statements that join its audit row.

        Where guards and journal share a database they refuse a step that awaits its value no more.
        """

    def settling(self, guard: Guard, given: Evidence, value: bytes | None) -> AbstractContextManager[None]:
        """Be around the batch that releases the guard: what it cannot reach of the entry is settled with it.

        Nobody else changes the entry meanwhile, and where the batch is refused the entry is as it was.
        """

    def recording(self, guard: Guard, given: Evidence, value: bytes) -> AbstractContextManager[None]:
        """Be around the batch of a receipt's audit row: a value that it cannot reach is recorded once that stands.

        Raise `ExecutionGuardUnknown` where none is awaited.
        """

    def awaits_value(self, guard: Guard, given: Evidence) -> bool:
        """Whether the receipt `given` settled the entry, it has no value yet and no callback is out for it."""

    def recalling(self) -> Sequence[Call]:
        """Give entries of a schema that kept no destination the one that their guards tell.

        The statements that join the migration's batch; what they do not reach is on the disk when this returns.
        """


class Awakeables(Protocol):
    """The registry of waits for an outside party (run.suspend.awakeable); instants come from the caller."""

    def mint(self, awakeable: Awakeable) -> None:
        """Persist a pending row; minting the same token again is harmless."""

    def read(self, token: str) -> Awakeable:
        """The row as it stands. Raise `AwakeableUnknown` where there is none."""

    def resolve(self, token: str, payload: bytes, *, at: int) -> bytes:
        """Record `payload` as the awaited step's output and return it (run.suspend.resume-is-a-step-output).

        Repeating the identical payload returns it; raise `AwakeableAlreadyResolved` for another one,
        `AwakeableTimedOut` past the deadline, `AwakeableUnknown` where there is no row.
        """

    def time_out(self, token: str, *, at: int) -> bool:
        """Close a pending row whose deadline has passed; tell whether it is timed out now."""

    def pending(self, execution_id: str, *, at: int) -> list[Awakeable]:
        """The waits of an execution that are pending before their deadline."""


class Meter(Protocol):
    """Grants permits of quotas that every process of the store shares."""

    def acquire(self, quota: Quota, n: int) -> Reply:
        """Take `n` permits of `quota` or none, and answer at once.

        It never waits: a denial says how long (run.cancel.one-token, run.retry.one-layer). A replayed step never calls
        it (run.retry.no-double-spend).
        """
