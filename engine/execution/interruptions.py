"""What ends an effect from outside: no failure of it, and no crash either, for its process goes on."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from engine.errors import StorageFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ALWAYS: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)


def interruptions() -> tuple[type[BaseException], ...]:
    """The exceptions that end an effect from outside; asyncio's own only where somebody has imported that."""
    asyncio = sys.modules.get("asyncio")
    return _ALWAYS if asyncio is None else (*_ALWAYS, asyncio.CancelledError)


@contextmanager
def where_interrupted(leave: Callable[[], None]) -> Iterator[None]:
    """Do `leave` where the block is ended from outside, as far as the store can be told; what ended it goes on."""
    try:
        yield
    except interruptions():
        with suppress(StorageFailure):
            leave()
        raise
