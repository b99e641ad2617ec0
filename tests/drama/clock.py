"""The clock that all processes of a scene go by."""

from __future__ import annotations

import mmap
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from engine.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path

_OFFSET: Final = struct.Struct("<q")
_YEAR_MS: Final = 31_536_000_000


class SceneClock(SystemClock):
    """The machine's clock, moved by the milliseconds that a file says: by whoever writes it, for everybody at once.

    The time that elapses moves with it, as when everybody had slept: no process needs to wait for a lease to lapse.
    """

    def __init__(self, file: Path, *, begins_at: int | None = None) -> None:
        super().__init__()
        if begins_at is not None:
            file.write_bytes(_OFFSET.pack(begins_at))
        with file.open("r+b") as opened:
            self._shared = mmap.mmap(opened.fileno(), _OFFSET.size)

    @property
    def ahead_ms(self) -> int:
        """How far it stands ahead of the machine's, less than 0 where it stands behind."""
        offset: int = _OFFSET.unpack(self._shared[:])[0]
        return offset

    def advance(self, milliseconds: int) -> None:
        """Move it forward; only the test does."""
        self._shared[:] = _OFFSET.pack(self.ahead_ms + milliseconds)

    def now(self) -> int:
        """The machine's instant, moved."""
        return super().now() + self.ahead_ms

    def elapsed(self) -> int:
        """The machine's, moved as well."""
        return super().elapsed() + self.ahead_ms + _YEAR_MS

    def close(self) -> None:
        """Let go of the file."""
        with suppress(ValueError):
            self._shared.close()
