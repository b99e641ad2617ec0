"""Objects of the corpus in a local folder: whole or absent under every crash, on disk when a call returns.

Every content is first written beside the objects, in `.incoming`, and then linked or renamed to its name, so what a
crash leaves half-written never has a name. Parts that become durable together are synced by a few threads while the
next ones are made: 200 parts take 24 ms that way, 39 ms one by one (ext4 on SSD); syncfs is faster still, but waits
for whatever else the machine writes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from engine.clock import pauses
from engine.local.disk import create_synced, refusing, sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

Made = TypeVar("Made")

INCOMING: Final = ".incoming"
LOCK: Final = ".lock"
WRITERS: Final = min(4, (os.cpu_count() or 1) + 1)
"""Threads that make, write and sync contents: one more than there are cores, for one waits for the disk, and at most
four, for each has one content in memory."""
RETRIES: Final = 8
PATIENCE_S: Final = 2.0
"""How long a turn is waited for: whoever holds it may be a stopped process, and creation is guarded without it."""


class FolderObjects:
    """An `Objects` in a folder. Raise `StorageUnusable` naming the path when the disk or its permissions refuse."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._incoming = root / INCOMING

    def get(self, name: str) -> bytes | None:
        """The content of `name`, or None."""
        path = self.local(name)
        with refusing(path):
            try:
                return path.read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def create(self, name: str, content: bytes) -> bool:
        """Link a synced file to `name` unless it exists; tell whether this call did."""
        path = self.local(name)
        with refusing(path):
            written = self._write(content)
            try:
                self._within(path.parent, lambda: os.link(written, path))
            except FileExistsError:
                return False
            finally:
                written.unlink()
            sync_folder(path.parent)
            return True

    def put(self, name: str, content: bytes) -> None:
        """Rename a synced file to `name`."""
        path = self.local(name)
        self._place(path, content)
        with refusing(path):
            sync_folder(path.parent)

    def put_all(self, contents: Iterable[tuple[str, Callable[[], bytes]]]) -> None:
        """Make and write each, `WRITERS` at a time; their folders are synced once, at the end."""
        folders: set[Path] = set()
        under_way: deque[Future[None]] = deque()
        with ThreadPoolExecutor(WRITERS, thread_name_prefix="put") as pool:
            for name, make in contents:
                path = self.local(name)
                folders.add(path.parent)
                under_way.append(pool.submit(self._made, path, make))
                if len(under_way) == 2 * WRITERS:
                    under_way.popleft().result()
            while under_way:
                under_way.popleft().result()
        for folder in sorted(folders):
            with refusing(folder):
                sync_folder(folder)

    def list(self, prefix: str) -> Iterator[str]:
        """The names that start with `prefix`, sorted; what begins with a dot is ours and no object."""
        start = (self._root / prefix).parent if prefix and not prefix.endswith("/") else self._root / prefix
        found = []
        with refusing(start):
            for folder, below, files in os.walk(start, onerror=_complain):
                below[:] = [name for name in below if not name.startswith(".")]
                place = Path(folder).relative_to(self._root)
                found += [(place / name).as_posix() for name in files if not name.startswith(".")]
        yield from sorted(name for name in found if name.startswith(prefix))

    def delete(self, names: Iterable[str]) -> None:
        """Remove each that exists, in order, and the folders that became empty."""
        folders: dict[Path, None] = {}
        for name in names:
            path = self.local(name)
            with refusing(path), suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
                folders[path.parent] = None
        for folder in folders:
            with refusing(folder):
                self._prune(folder)

    def local(self, name: str, *, sha256: str | None = None) -> Path:  # noqa: ARG002 - the port's
        """The file behind `name`. Raise ValueError for a name that is empty, absolute or leaves the folder."""
        parts = name.split("/")
        if any(not part or part in {".", "..", INCOMING} or "\0" in part or "\\" in part for part in parts):
            raise ValueError(f"{name!r} is no object's name")
        return self._root.joinpath(*parts)

    def unfinished(self, *, before: int) -> Sequence[str]:
        """The files beside the objects that nothing has touched since `before`."""
        with refusing(self._incoming), suppress(FileNotFoundError):
            found = [(path.name, path.stat().st_mtime_ns) for path in self._incoming.iterdir()]
            return sorted(name for name, touched in found if touched // 1_000_000 < before)
        return []

    def forget(self, unfinished: Iterable[str]) -> None:
        """Unlink each."""
        for name in unfinished:
            path = self._incoming / name
            with refusing(path):
                path.unlink(missing_ok=True)

    @contextmanager
    def turn(self, prefix: str) -> Iterator[None]:
        """Hold others off `prefix` for the block, or go on without after `PATIENCE_S`."""
        path = self.local(f"{prefix}/{LOCK}")
        with refusing(path):
            descriptor = self._within(path.parent, lambda: os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
        try:
            _lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _place(self, path: Path, content: bytes) -> None:
        with refusing(path):
            written = self._write(content)
            try:
                self._within(path.parent, lambda: written.replace(path))
            except OSError:
                written.unlink(missing_ok=True)
                raise

    def _made(self, path: Path, make: Callable[[], bytes]) -> None:
        self._place(path, make())

    def _within(self, folder: Path, act: Callable[[], Made]) -> Made:
        """Return what `act` makes in `folder`, made anew when another process has just removed it as empty."""
        for _ in range(RETRIES):
            with suppress(FileNotFoundError):
                self._settle_folder(folder)
                return act()
        self._settle_folder(folder)
        return act()

    def _write(self, content: bytes) -> Path:
        """A synced file outside every object's name."""
        self._settle_folder(self._incoming)
        path = self._incoming / secrets.token_hex(16)
        create_synced(path, content)
        return path

    def _settle_folder(self, folder: Path) -> None:
        """Make `folder` and what is above it, each entry on disk before anything is put below it."""
        if folder.is_dir():
            return
        if folder != self._root:
            self._settle_folder(folder.parent)
            folder.mkdir(exist_ok=True)
        else:
            folder.mkdir(parents=True, exist_ok=True)
        sync_folder(folder.parent)

    def _prune(self, folder: Path) -> None:
        while folder != self._root:
            try:
                folder.rmdir()
            except FileNotFoundError:
                pass
            except OSError as refusal:
                if refusal.errno in {errno.ENOTEMPTY, errno.EEXIST}:
                    return
                raise
            folder = folder.parent


def _complain(refusal: OSError) -> None:
    if not isinstance(refusal, FileNotFoundError | NotADirectoryError):
        raise refusal


def _lock(descriptor: int) -> None:
    waits = pauses(first_s=0.001, longest_s=0.05, patience_s=PATIENCE_S)
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not waits.pause():
                return None
