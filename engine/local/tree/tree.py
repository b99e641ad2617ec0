"""Where the files lie, who may change them, and how a change becomes whole.

    executions/<execution id>/<hash>.entry       a journal entry
                              <hash>.awakeable   a wait of the execution
    awakeables/<hash>                            the execution a wait's token belongs to
    blobs/<sha256>                               a value too large for its entry
    locks/<stripe>                               one of a fixed set of lock files, never deleted

Names are hashes, so any label and any token make a good one; what they stand for is inside the file.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from engine.clock import pauses
from engine.errors import StorageBusy
from engine.local.disk import refusing, sync_content, sync_folder, write_content
from engine.shapes import domain_hash

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from engine.shapes import EntryKey

STRIPES: Final = 256
PATIENCE_S: Final = 60
"""How long a change waits for whoever holds its lock before it gives up."""

INCOMING: Final = ".incoming"
"""Ends the name of a change on its way. Its writer holds the lock, so the next change takes over what a crash left."""


class Tree:
    """The folders of one store. Every failure of the disk is a `StorageUnusable` that names the path."""

    def __init__(self, root: Path) -> None:
        self.executions = root / "executions"
        self.blobs = root / "blobs"
        self._awakeables = root / "awakeables"
        self._locks = root / "locks"

    def execution(self, execution_id: str) -> Path:
        """The folder of an execution's entries and waits."""
        return self.executions / execution_id

    def entry(self, key: EntryKey) -> Path:
        """The file of a journal entry."""
        return self.execution(key.execution_id) / f"{domain_hash('contextful.entry', key.step, key.input)}.entry"

    def awakeable(self, execution_id: str, token: str) -> Path:
        """The file of a wait."""
        return self.execution(execution_id) / f"{_token_hash(token)}.awakeable"

    def pointer(self, token: str) -> Path:
        """The file that names the execution `token` belongs to."""
        return self._awakeables / _token_hash(token)

    @contextmanager
    def changing(self, execution_id: str) -> Iterator[None]:
        """Keep every other thread and process from changing the execution's files."""
        stripe = int(hashlib.sha256(execution_id.encode()).hexdigest(), 16) % STRIPES
        with self._held(f"{stripe:02x}", fcntl.LOCK_EX):
            yield

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Keep a sweep out while a blob is written and then referenced."""
        with self._held("sweep", fcntl.LOCK_SH):
            yield

    @contextmanager
    def sweeping(self) -> Iterator[None]:
        """Keep everyone from referencing a blob."""
        with self._held("sweep", fcntl.LOCK_EX):
            yield

    def read(self, path: Path) -> bytes | None:
        """The content of a file, None where there is none."""
        with refusing(path):
            try:
                return path.read_bytes()
            except FileNotFoundError:
                return None

    def head(self, path: Path) -> bytes:
        """The first line of a file, nothing where there is none."""
        with refusing(path):
            try:
                with path.open("rb") as file:
                    return file.readline()
            except FileNotFoundError:
                return b""

    def files(self, folder: Path, *, suffix: str) -> list[Path]:
        """The files of `folder` whose names end so, sorted; none where there is no folder."""
        with refusing(folder):
            try:
                return sorted(path for path in folder.iterdir() if path.name.endswith(suffix))
            except FileNotFoundError:
                return []

    def put(self, path: Path, content: bytes) -> None:
        """Replace a file whole. It is on the disk, name and content, when this returns."""
        self._replace(path, content, synced=True)

    def offer(self, path: Path, content: bytes) -> None:
        """Replace a file whole for everyone who looks; after a loss of power it may be gone, or empty."""
        self._replace(path, content, synced=False)

    def _replace(self, path: Path, content: bytes, *, synced: bool) -> None:
        incoming = path.with_suffix(INCOMING)
        with refusing(path):
            self.settle(path.parent)
            descriptor = os.open(incoming, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                write_content(descriptor, content)
                if synced:
                    sync_content(descriptor)
            finally:
                os.close(descriptor)
            incoming.replace(path)
            if synced:
                sync_folder(path.parent)

    def settle(self, folder: Path) -> None:
        """Make `folder`, its own name on the disk before anything is put into it."""
        if folder.is_dir():
            return
        if not folder.parent.is_dir():
            self.settle(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)

    @contextmanager
    def _held(self, name: str, kind: int) -> Iterator[None]:
        path = self._locks / name
        with refusing(path):
            descriptor = self._opened(path)
        try:
            _lock(descriptor, kind, path)
            yield
        finally:
            os.close(descriptor)

    def _opened(self, path: Path) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(path, flags, 0o644)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, flags, 0o644)


def _lock(descriptor: int, kind: int, path: Path) -> None:
    waits = pauses(first_s=0.000_1, longest_s=0.005, patience_s=PATIENCE_S)
    while True:
        try:
            return fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except OSError as held:
            if held.errno not in {errno.EWOULDBLOCK, errno.EINTR}:
                raise
        if not waits.pause():
            raise StorageBusy(file=str(path), seconds=PATIENCE_S)


def _token_hash(token: str) -> str:
    return domain_hash("contextful.awakeable", token)
