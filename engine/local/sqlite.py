"""A `Database` in one SQLite file: write-ahead log, one connection, immediate transactions."""

from __future__ import annotations

import sqlite3
import threading
from typing import TYPE_CHECKING, Final, TypeVar

from engine.clock import Clock, SystemClock, pauses
from engine.errors import EngineClosed, Refused, StorageBusy, StorageUnusable
from engine.local import frozen
from engine.local.disk import SHUT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from engine.ports import Call, Rows

Answer = TypeVar("Answer")

PATIENCE_S: Final = 60
"""How long a batch waits for the write lock of another process before it gives up."""

_DAMAGED: Final = (
    "bring it back from a backup (contextful storage restore); without one move it away, then contextful storage "
    "initialize and contextful catalog rebuild: every row stays, the recorded work of unfinished runs is gone"
)
_SHUT: Final = "make it and its folder writable for whoever runs this, and run again"
_UNFOLDED: Final = "copy it with everything beside it to a folder that may be written, and use it there"
_LOOKS: Final = 3
"""How often a batch that reads a file that may not be written begins anew because somebody else wrote it."""

_BUSY: Final = frozenset({"SQLITE_BUSY", "SQLITE_BUSY_RECOVERY", "SQLITE_BUSY_SNAPSHOT", "SQLITE_LOCKED"})


class SqliteDatabase:
    """A SQL store in `path`, opened at first use and created when it is not there (run.journal.sqlite-stores).

    Every batch that writes is one immediate transaction (run.journal.sqlite-write-lock): under write-ahead logging a
    deferred read that turns into a write fails at once instead of waiting. One statement needs no words around it to be
    one: SQLite takes the write lock before it runs it and commits behind it. A batch reaches the disk before it returns
    when one of its statements is durable; the others are visible at once and reach the disk with the next durable one.

    Where neither the file nor anything beside it may be written it is only read.
    """

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        self.path = path
        self._clock = clock or SystemClock()
        self._turn = threading.Lock()
        self._closed = False
        self._opened: sqlite3.Connection | None = None
        self._frozen: frozen.Stamp | None = None
        self._synced = True

    def run(self, *calls: Call) -> list[Rows]:
        """Run `calls` as one transaction."""
        with self._turn:
            try:
                return self._steadily(calls)
            except sqlite3.IntegrityError as refusal:
                raise Refused(constraint=str(refusal)) from refusal
            except (sqlite3.Error, OSError) as failure:
                raise self._failure(failure) from failure

    def now(self) -> int:
        """The injected clock's instant: on one machine it is the store's."""
        return self._clock.now()

    def close(self) -> None:
        """Close the file; the last to close folds the log into it."""
        with self._turn:
            self._closed = True
            self._drop()

    @property
    def _connection(self) -> sqlite3.Connection:
        """The connection, opened at first use: whoever asks the corpus alone needs no state."""
        if self._closed:
            raise EngineClosed
        if self._opened is None:
            self._opened = self._connect()
        return self._opened

    def _drop(self) -> None:
        if self._opened is not None:
            self._opened.close()
        self._opened = self._frozen = None

    def _steadily(self, calls: tuple[Call, ...]) -> list[Rows]:
        """Run `calls`; on a file that may not be written, again where somebody else wrote it meanwhile."""
        for _ in range(_LOOKS):
            try:
                results = self._run(calls)
            except sqlite3.Error:
                if self._as_it_was():
                    raise
            else:
                if self._as_it_was():
                    return results
            self._drop()
        reason = "it may only be read here, and somebody else keeps writing it"
        raise StorageUnusable(place=str(self.path), reason=reason).advising(_UNFOLDED)

    def _as_it_was(self) -> bool:
        return self._frozen is None or self._frozen == frozen.Stamp.of(self.path)

    def _run(self, calls: tuple[Call, ...]) -> list[Rows]:
        writes = durable = False
        for each in calls:
            writes = writes or not each.statement.reads
            durable = durable or each.statement.durable
        connection = self._connection
        if connection.in_transaction:
            # An interrupt struck while another was answered: a statement by itself would join what is open still.
            connection.execute("ROLLBACK")
        if writes:
            self._sync(connection, wanted=durable)
        if len(calls) == 1:
            return [self._alone(connection, calls[0])]
        return self._together(connection, calls, begin="BEGIN IMMEDIATE" if writes else "BEGIN")

    def _alone(self, connection: sqlite3.Connection, only: Call) -> Rows:
        # The instant is that of the try which got the lock: what is judged by it may have changed while it waited.
        return _patiently(
            lambda: connection.execute(only.statement.text, _filled(only, self._clock.now())).fetchall(), self.path
        )

    def _together(self, connection: sqlite3.Connection, calls: tuple[Call, ...], *, begin: str) -> list[Rows]:
        execute = connection.execute
        try:
            _patiently(lambda: execute(begin), self.path)
            now = self._clock.now()
            results = [execute(c.statement.text, _filled(c, now)).fetchall() for c in calls]
            execute("COMMIT")
        except BaseException:
            # Interrupted or refused, the batch leaves nothing; SQLite may have rolled back by itself already.
            if connection.in_transaction:
                execute("ROLLBACK")
            raise
        return results

    def _sync(self, connection: sqlite3.Connection, *, wanted: bool) -> None:
        """Choose whether the next commit waits for the disk; inside a transaction SQLite would refuse the switch."""
        if wanted is not self._synced:
            connection.execute(f"PRAGMA synchronous={'FULL' if wanted else 'NORMAL'}")
            self._synced = wanted

    def _connect(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(
                self.path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False, cached_statements=256
            )
            # Two that open a new file at once contend on the switch, for which SQLite itself does not wait.
            _patiently(lambda: connection.execute("PRAGMA journal_mode=WAL"), self.path)
            connection.execute("PRAGMA synchronous=FULL")
            # Some builds overwrite deleted rows with zeros, which makes retiring a long journal ten times slower.
            connection.execute("PRAGMA secure_delete=OFF")
            connection.execute("PRAGMA busy_timeout=0")
        except (sqlite3.Error, OSError) as failure:
            if frozen.shut(self.path, failure):
                return self._connect_frozen()
            raise self._failure(failure) from failure
        return connection

    def _connect_frozen(self) -> sqlite3.Connection:
        """A connection that only reads. Raise `StorageUnusable` where the file is not whole without its log."""
        stamp = frozen.Stamp.of(self.path)
        if stamp.log:
            reason = f"{self.path.name}-wal holds what was committed last, and nothing may be written here to read it"
            raise StorageUnusable(place=str(self.path), reason=reason).advising(_UNFOLDED)
        self._frozen = stamp
        return frozen.connected(self.path)

    def _failure(self, failure: Exception) -> StorageUnusable:
        unusable = StorageUnusable(place=str(self.path), reason=getattr(failure, "strerror", None) or str(failure))
        name = getattr(failure, "sqlite_errorname", "")
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return unusable.advising(_DAMAGED)
        if name.startswith(frozen.REFUSALS) or getattr(failure, "errno", None) in SHUT:
            return unusable.advising(_SHUT)
        return unusable


def _patiently(statement: Callable[[], Answer], path: Path) -> Answer:
    """Run `statement`, waiting for another process's lock in short random pauses instead of SQLite's long ones."""
    try:
        return statement()
    except sqlite3.OperationalError as busy:
        if busy.sqlite_errorname not in _BUSY:
            raise
    waiting = pauses(first_s=0.000_05, longest_s=0.005, patience_s=PATIENCE_S)
    while waiting.pause():
        try:
            return statement()
        except sqlite3.OperationalError as busy:
            if busy.sqlite_errorname not in _BUSY:
                raise
    raise StorageBusy(file=path.name, seconds=PATIENCE_S)


def _filled(call: Call, now: int) -> dict[str, object]:
    """The call's arguments with the store's instant, where its statement asks for it."""
    return call.arguments | {"now": now} if "now" in call.statement.parameters else call.arguments
