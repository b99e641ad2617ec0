"""Blobs as rows of the SQLite file, keyed by their SHA-256."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, Final

from engine.clock import pauses
from engine.errors import BlobMissing, StorageFailure
from engine.shapes import BlobRef
from engine.sql import call

if TYPE_CHECKING:
    from engine.ports import Database

PORTION: Final = 100
"""How many contents go in one transaction: nobody else can use the file meanwhile."""


class SqliteBlobs:
    """`Blobs` beside the journal, in one file and over one connection (run.journal.sqlite-stores)."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def put(self, content: bytes) -> BlobRef:
        """Keep `content` and refresh its age; wait out a sweep that is deleting it."""
        reference = BlobRef(hashlib.sha256(content).hexdigest(), len(content))
        keep = call("keep_blob", digest=reference.sha256, bytes=reference.bytes)
        store = call("store_content", digest=reference.sha256, content=content)
        waiting = pauses(first_s=0.01, longest_s=0.5, patience_s=60)
        while True:
            kept, _ = self._db.run(keep, store)
            if kept:
                return reference
            if not waiting.pause():
                raise StorageFailure(f"the blob {reference.sha256} stayed doomed: a sweep was interrupted",
                                     remedy="contextful storage sweep finishes it")  # fmt: skip

    def get(self, reference: BlobRef) -> bytes:
        """The content, its digest verified."""
        rows = self._db.run(call("read_content", digest=reference.sha256))[0]
        if not rows or hashlib.sha256(rows[0][0]).hexdigest() != reference.sha256:
            raise BlobMissing(reference=reference)
        return bytes(rows[0][0])

    def sweep(self, *, older_than: int) -> list[str]:
        """Doom a portion, delete and forget what is doomed, let others have the file, and so on until nothing is left.

        The mark is in the same file as the contents.
        """
        gone: list[str] = []
        between = pauses(first_s=0.02, longest_s=0.02, patience_s=math.inf)
        while True:
            doom = call("doom_blobs", older_than=older_than, portion=PORTION)
            _, doomed = self._db.run(doom, call("doomed_blobs", portion=PORTION))
            if doomed:
                self._db.run(*(call("delete_doomed_content", digest=digest) for digest, _ in doomed))
                self._db.run(*(call("forget_doomed", digest=digest, doomed_at=at) for digest, at in doomed))
            gone += [digest for digest, _ in doomed]
            if len(doomed) < PORTION:
                return gone
            between.pause()
