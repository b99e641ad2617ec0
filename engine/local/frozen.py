"""A SQLite file where nothing may be written: a mounted backup, another's folder.

Under write-ahead logging SQLite reads only where the log and its index are or may be made. They are, beside a file in
use: then it reads there as anywhere. They are not, beside one that was closed: then the file is whole, and opened as
one that never changes. Whoever may write may still change it, so its stamp is looked at around every batch.
"""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from pathlib import Path

REFUSALS: Final = ("SQLITE_READONLY", "SQLITE_CANTOPEN")
"""How the names of the errors begin that a file or folder causes in which nothing may be written."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """By what a change of a file is told: which it is, its size, when it was written, the bytes of its log."""

    file: int
    size: int
    written_ns: int
    log: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """The stamp of the file at `path` as it is now. Raise `OSError`."""
        stat = path.stat()
        return cls(stat.st_ino, stat.st_size, stat.st_mtime_ns, log_size(path))


def log_size(path: Path) -> int:
    """Bytes of the write-ahead log beside `path`; 0 where there is none."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size
    except FileNotFoundError:
        return 0


def shut(path: Path, failure: sqlite3.Error | OSError) -> bool:
    """Whether `failure` is that the file at `path` is there, and that nothing may be written beside it."""
    name = getattr(failure, "sqlite_errorname", "")
    return name.startswith(REFUSALS) and path.is_file() and not os.access(path.parent, os.W_OK)


def connected(path: Path) -> sqlite3.Connection:
    """A connection that takes the file as it is for the whole of what was committed, and locks nothing."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None, check_same_thread=False
    )
