"""Being asked to stop: TERM ends a run as Ctrl-C does, its lease released and its row closed."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGTERM into `KeyboardInterrupt` for the block."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers, and only it is interrupted
        return
    standing = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, standing)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
