"""What files on a local disk have in common: contents that are synced, refusals that name their path."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from engine.errors import StorageUnusable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


SHUT: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
"""What a folder says in which nothing may be written."""


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Raise `StorageUnusable` naming the path when the disk or its permissions refuse what the block does."""
    try:
        yield
    except OSError as refusal:
        place = refusal.filename if isinstance(refusal.filename, str) else path
        raise StorageUnusable(place=str(place), reason=refusal.strerror or str(refusal)) from refusal


def create_synced(path: Path, content: bytes) -> None:
    """Create `path` with `content` on the disk, or leave no file; its name is not on the disk yet."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        write_content(descriptor, content)
        sync_content(descriptor)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def write_content(descriptor: int, content: bytes) -> None:
    """Write all of `content`, however little of it the disk takes at a time."""
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def sync_content(descriptor: int) -> None:
    """Wait until a file's content is on the disk."""
    sync = os.fdatasync if hasattr(os, "fdatasync") else os.fsync
    sync(descriptor)


def sync_folder(folder: Path) -> None:
    """Wait until the names in `folder` are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
