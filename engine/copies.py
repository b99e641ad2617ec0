"""Local copies of objects, for readers that want a path: each named by object and version, so none is ever stale."""

from __future__ import annotations

import os
import secrets
import threading
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from engine.local.disk import SHUT, refusing
from engine.shapes import domain_hash

KEPT_BYTES: Final = 4 << 30
"""How much stays on the disk from one process to the next."""

IN_USE_S: Final = 3600
"""How long a copy that was asked for is left alone."""


class Copies:
    """Copies below `folder`. Losing one costs a download.

    Where nothing may be written there, new ones are kept in a folder of this process's own that goes with it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own: TemporaryDirectory[str] | None = None
        self._making = threading.Lock()
        _pruned(folder)

    def find(self, name: str, version: str) -> Path | None:
        """The copy of `name` as it was at `version`, if it is here."""
        for path in self._paths(name, version):
            try:
                os.utime(path)
            except FileNotFoundError:
                continue
            except OSError as refusal:
                if refusal.errno not in SHUT or not path.exists():
                    continue
            return path
        return None

    def keep(self, name: str, version: str, content: bytes) -> Path:
        """Keep `content` as that copy; it has its name when it is whole."""
        shared, *own = self._paths(name, version)
        path = own[0] if own else shared
        with refusing(path):
            try:
                return _written(path, content)
            except OSError as refusal:
                if own or refusal.errno not in SHUT:
                    raise
        self._make_own()
        return self.keep(name, version, content)

    def absent(self, name: str) -> Path:
        """A path at which nothing is, and that tells the name."""
        return self._folder / "absent" / name

    def _make_own(self) -> None:
        """Make this process's own folder unless it is there. Replacing one would take the copies in it away."""
        with self._making:
            self._own = self._own or TemporaryDirectory(prefix="contextful-")

    def _paths(self, name: str, version: str) -> list[Path]:
        """Where that copy may be; a new one goes to the last."""
        file = f"{domain_hash('contextful.copy', name, version)[:32]}-{name.rpartition('/')[2]}"
        return [self._folder / file, *([Path(self._own.name) / file] if self._own else [])]


def _written(path: Path, content: bytes) -> Path:
    written = path.with_name(f".{secrets.token_hex(16)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        written.write_bytes(content)
        return written.replace(path)
    finally:
        with suppress(OSError):
            written.unlink(missing_ok=True)


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
