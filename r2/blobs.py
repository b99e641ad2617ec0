"""Blobs in a bucket, their rows in the database: written before they are referenced, deleted after the last reference.

A bucket deletes without conditions, so a sweeper that stalls between its look and its deletion could take a content
that somebody has written again meanwhile. What keeps it out is time. A content is deleted only by the sweep that doomed
it, and only within DELETE_WITHIN_S of the doom. The row keeps the doom until that sweep has seen every one of its
deletions answered, and otherwise for DOOM_KEPT_MS, many times as long; until then no writer puts the content again.
So when a writer does, no deletion is left that could still be sent, or be on its way.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Final

from engine.clock import pauses
from engine.errors import BlobMissing, StorageBindingUnavailable, StorageFailure, StorageUnusable
from engine.shapes import BlobRef
from engine.sql import call
from r2 import names

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.ports import Database
    from r2.keys import Keys

DELETE_WITHIN_S: Final = 30
"""How long after its doom a content's deletion may begin; the request itself is over in 45 s at most."""

DOOM_KEPT_MS: Final = 300_000
"""How long a doom whose deletion was not answered keeps writers out."""

PORTION: Final = 25
"""How many contents are doomed at once: a bucket that takes a second for each still has them deleted in time."""

PATIENCE_S: Final = DOOM_KEPT_MS / 1000 + 60


class BucketBlobs:
    """`Blobs` under `blobs/<sha256>` (run.journal.d1-blob). `elapsed` tells the seconds of a clock that never jumps."""

    def __init__(self, keys: Keys, database: Database, *, elapsed: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._db = database
        self._elapsed = elapsed

    def put(self, content: bytes) -> BlobRef:
        """Keep `content` and refresh its age; wait out a sweep that is deleting it."""
        reference = BlobRef(hashlib.sha256(content).hexdigest(), len(content))
        waiting = pauses(first_s=0.01, longest_s=2, patience_s=PATIENCE_S)
        while not self._held(reference):
            if not waiting.pause():
                raise StorageFailure(f"the blob {reference.sha256} stayed doomed: a sweep was interrupted",
                                     remedy="contextful storage sweep finishes it")  # fmt: skip
        self._write(names.blob(reference.sha256), content)
        return reference

    def get(self, reference: BlobRef) -> bytes:
        """The content, its digest verified."""
        held = self._keys.get(names.blob(reference.sha256))
        if held is None or hashlib.sha256(held.content).hexdigest() != reference.sha256:
            raise BlobMissing(reference=reference)
        return held.content

    def sweep(self, *, older_than: int) -> list[str]:
        """Doom a portion, delete it within the deadline, forget the dooms whose deletions were answered, and so on.

        What was not deleted in time stays doomed for a later sweep; when the first deadline is over no more is doomed.
        """
        now = self._elapsed()
        last = now + DELETE_WITHIN_S
        gone: list[str] = []
        while now < last:
            portion = self._swept(older_than, before=now + DELETE_WITHIN_S)
            gone += portion
            if len(portion) < PORTION:
                break
            now = self._elapsed()
        return sorted(gone)

    def _swept(self, older_than: int, *, before: float) -> list[str]:
        doom = call("doom_for_deletion", older_than=older_than, kept=DOOM_KEPT_MS, portion=PORTION)
        [doomed] = self._db.run(doom)
        gone = [(digest, at) for digest, at in doomed if self._deleted(digest, before=before)]
        if gone:
            self._db.run(*(call("forget_doomed", digest=digest, doomed_at=at) for digest, at in gone))
        return [digest for digest, _ in gone]

    def _held(self, reference: BlobRef) -> bool:
        """Whether the blob's row stands, undoomed.

        After a lost answer it is held once more: the row is the same however often that is applied.
        """
        hold = call("hold_blob", digest=reference.sha256, bytes=reference.bytes, kept=DOOM_KEPT_MS)
        try:
            return bool(self._db.run(hold)[0])
        except StorageBindingUnavailable:
            return bool(self._db.run(hold)[0])

    def _write(self, key: str, content: bytes) -> None:
        """Write `content` unless it is there; a content of another size under its name is none, and replaced."""
        replacing: str | None = None
        for _ in range(3):
            if self._keys.put(key, content, replacing=replacing):
                return
            standing = self._keys.head(key)
            if standing and standing.bytes == len(content):
                return
            replacing = standing.etag if standing else None
        raise StorageUnusable(place=key, reason="it is neither there nor can it be written")

    def _deleted(self, digest: str, *, before: float) -> bool:
        if self._elapsed() >= before:
            return False
        try:
            return self._keys.delete(names.blob(digest))
        except StorageBindingUnavailable:
            return False  # it may arrive yet: the doom stands until it no longer can
