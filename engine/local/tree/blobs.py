"""Blobs as files named by the SHA-256 of their content."""

from __future__ import annotations

import hashlib
import os
import secrets
from typing import TYPE_CHECKING

from engine.errors import BlobMissing
from engine.local.disk import create_synced, refusing, sync_folder
from engine.shapes import BlobRef

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from engine.clock import Clock
    from engine.local.tree.tree import Tree


class TreeBlobs:
    """`Blobs` in a folder; a file's modification time is its age, by the store's clock.

    A content is written beside the names, synced and renamed to its own, so writers of one content converge and what
    a crash leaves half-written never has a name (run.journal.blob-write).
    """

    def __init__(self, tree: Tree, clock: Clock) -> None:
        self._tree = tree
        self._clock = clock

    def put(self, content: bytes) -> BlobRef:
        """Keep `content` and refresh its age. A file that no longer holds what its name says is replaced."""
        reference = BlobRef(hashlib.sha256(content).hexdigest(), len(content))
        path = self._path(reference.sha256)
        with refusing(path):
            if self._tree.read(path) != content:
                self._write(path, content)
            self._stamp(path)
        return reference

    def get(self, reference: BlobRef) -> bytes:
        """The content, its digest verified."""
        content = self._tree.read(self._path(reference.sha256))
        if content is None or hashlib.sha256(content).hexdigest() != reference.sha256:
            raise BlobMissing(reference=reference)
        return content

    def delete(self, digests: Iterable[str]) -> None:
        """Delete each; the caller holds the tree's sweep lock."""
        for digest in digests:
            path = self._path(digest)
            with refusing(path):
                path.unlink(missing_ok=True)

    def unused_since(self, instant: int) -> Iterator[str]:
        """The digests last used before `instant`; what an interrupted write left behind goes with the first of them."""
        for path in self._old(instant):
            if path.name.startswith("."):
                self.delete([path.name])
            else:
                yield path.name

    def older_than(self, instant: int) -> list[str]:
        """The same digests; nothing goes."""
        return [path.name for path in self._old(instant) if not path.name.startswith(".")]

    def _old(self, instant: int) -> Iterator[Path]:
        for path in self._tree.files(self._tree.blobs, suffix=""):
            with refusing(path):
                if path.stat().st_mtime_ns // 1_000_000 < instant:
                    yield path

    def _write(self, path: Path, content: bytes) -> None:
        self._tree.settle(path.parent)
        incoming = path.parent / f".{secrets.token_hex(16)}"
        create_synced(incoming, content)
        self._stamp(incoming)
        incoming.replace(path)
        sync_folder(path.parent)

    def _stamp(self, path: Path) -> None:
        nanoseconds = self._clock.now() * 1_000_000
        os.utime(path, ns=(nanoseconds, nanoseconds))

    def _path(self, digest: str) -> Path:
        return self._tree.blobs / digest
