"""Being asked to stop: the first Ctrl-C, TERM or hang-up stops a run as `run stop` does, a second interrupts outright.

A hang-up is what a closed terminal or a lost connection sends. Where it is to be ignored, as `nohup` sees to, it is.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import FrameType

    _Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into `KeyboardInterrupt` for the block."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers, and only it is interrupted
        return
    standing = _set(_heeded()[1:], _interrupt)
    try:
        yield
    finally:
        _restore(standing)


@contextmanager
def stopping(stop: Callable[[str], None]) -> Iterator[None]:
    """Call `stop` at the first Ctrl-C, TERM or hang-up of the block; the next raises `KeyboardInterrupt`.

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
        _set(_heeded(), _interrupt)
        words.put("interrupted")

    standing = _set(_heeded(), asked)
    try:
        yield
    finally:
        _restore(standing)
        words.put(None)
        thread.join()


def _heeded() -> list[signal.Signals]:
    """The signals to hear, Ctrl-C first: a hang-up that is ignored stays so."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([] if ignored else [signal.SIGHUP])]


def _set(numbers: Sequence[signal.Signals], handler: _Handler) -> dict[signal.Signals, _Handler]:
    """Give the signals one handler and return those they had."""
    return {number: signal.signal(number, handler) for number in numbers}


def _restore(standing: Mapping[signal.Signals, _Handler]) -> None:
    for number, handler in standing.items():
        signal.signal(number, handler)


def _hear(words: SimpleQueue[str | None], stop: Callable[[str], None]) -> None:
    while (word := words.get()) is not None:
        stop(word)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
