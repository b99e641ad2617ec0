"""The pipe by which an engine, and every engine below it, names its holder to the process that will reap it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Self

from engine.errors import StorageUnusable

_CHUNK = 1 << 16


class HoldersPipe:
    """Holds what was written to it until it is read, whoever has died in between; `path` is where engines write."""

    def __init__(self) -> None:
        try:
            self._folder = tempfile.TemporaryDirectory(prefix="contextful-")
            self.path = Path(self._folder.name) / "holders"
            os.mkfifo(self.path, 0o600)
        except OSError as failure:
            raise StorageUnusable(place="the folder for temporary files", reason=str(failure)) from failure
        self._reads = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        # With a writer of its own the pipe never ends, and what is in it outlives every other writer.
        self._writes = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
        self._told = b""

    def fileno(self) -> int:
        """The descriptor that becomes readable when a holder was named."""
        return self._reads

    def holders(self) -> tuple[str, ...]:
        """Every holder named so far, in order."""
        try:
            while chunk := os.read(self._reads, _CHUNK):
                self._told += chunk
        except BlockingIOError:
            pass  # that was all
        return tuple(dict.fromkeys(self._told.decode("ascii", "replace").split()))

    def __enter__(self) -> Self:
        """Use it for one engine's life."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove it."""
        os.close(self._writes)
        os.close(self._reads)
        self._folder.cleanup()
