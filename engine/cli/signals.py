"""Being asked to stop: the first Ctrl-C or TERM stops a run as `run stop` does, a second one interrupts outright."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


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


@contextmanager
def stopping(stop: Callable[[str], None]) -> Iterator[None]:
    """Call `stop` at the first Ctrl-C or TERM of the block; the next raises `KeyboardInterrupt`.

    A handler interrupts the main thread wherever it stands, perhaps holding the lock that `stop` needs: so it only
    leaves word, for a thread that waits for it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    words: SimpleQueue[str | None] = SimpleQueue()
    thread = threading.Thread(target=_hear, args=(words, stop), name="contextful-signals", daemon=True)
    thread.start()

    def asked(_number: int, _frame: FrameType | None) -> None:
        for number in SIGNALS:
            signal.signal(number, _interrupt)
        words.put("interrupted")

    standing = {number: signal.signal(number, asked) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in standing.items():
            signal.signal(number, handler)
        words.put(None)
        thread.join()


def _hear(words: SimpleQueue[str | None], stop: Callable[[str], None]) -> None:
    while (word := words.get()) is not None:
        stop(word)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
