"""Local copies of objects, for readers that want a path: each named by object and etag, so none is ever stale."""

from __future__ import annotations

import os
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from engine.local.disk import refusing
from engine.shapes import domain_hash

if TYPE_CHECKING:
    from pathlib import Path

KEPT_BYTES: Final = 4 << 30
"""How much stays on the disk from one process to the next."""

IN_USE_S: Final = 3600
"""How long a copy that was asked for is left alone."""


class Copies:
    """Copies below `folder`. Losing one costs a download."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        _pruned(folder)

    def find(self, name: str, etag: str) -> Path | None:
        """The copy of `name` as it was under `etag`, if it is here."""
        path = self._path(name, etag)
        with suppress(FileNotFoundError):
            os.utime(path)
            return path
        return None

    def keep(self, name: str, etag: str, content: bytes) -> Path:
        """Keep `content` as that copy; it has its name when it is whole."""
        path = self._path(name, etag)
        written = self._folder / f".{secrets.token_hex(16)}"
        with refusing(path):
            self._folder.mkdir(parents=True, exist_ok=True)
            try:
                written.write_bytes(content)
                written.replace(path)
            finally:
                written.unlink(missing_ok=True)
        return path

    def absent(self, name: str) -> Path:
        """A path at which nothing is, and that tells the name."""
        return self._folder / "absent" / name

    def _path(self, name: str, etag: str) -> Path:
        return self._folder / f"{domain_hash('contextful.copy', name, etag)[:32]}-{name.rpartition('/')[2]}"


def _pruned(folder: Path) -> None:
    """Remove the copies that were asked for longest ago, down to `KEPT_BYTES`."""
    copies = sorted(_copies(folder), key=lambda copy: copy[0].st_mtime)
    excess = sum(stat.st_size for stat, _ in copies) - KEPT_BYTES
    for stat, path in copies:
        if excess <= 0 or time.time() - stat.st_mtime < IN_USE_S:
            return
        with suppress(OSError):  # one that must stay leaves its room to younger ones
            path.unlink(missing_ok=True)
            excess -= stat.st_size


def _copies(folder: Path) -> list[tuple[os.stat_result, Path]]:
    """What is in `folder`, without what other processes take away meanwhile; nothing if nobody has made it."""
    copies: list[tuple[os.stat_result, Path]] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if entry.is_file():
                    copies.append((entry.stat(), folder / entry.name))
    return copies
