"""The callbacks of one engine that are out: which guards are theirs, and what their threads may not do meanwhile.

While a callback runs, it may not move the owner that admits it, and it makes no call to a destination inside its own:
each call has one guard (run.journal.guard-callback). Branches of a join are inside the callback that joins them.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from engine.errors import AdmittedOwnerMutation, EffectNested

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.shapes import EntryKey


class Callbacks:
    """Keeps the tokens of guards at work, and context by context the scope and step of the callback it is in."""

    def __init__(self) -> None:
        self._current: ContextVar[tuple[str, str] | None] = ContextVar("callback", default=None)
        self._turn = threading.Lock()
        self._at_work: set[str] = set()

    @contextmanager
    def callback(self, scope: str, key: EntryKey) -> Iterator[None]:
        """Be inside the callback of `key` under `scope` for as long as the block runs."""
        entered = self._current.set((scope, key.step))
        try:
            yield
        finally:
            self._current.reset(entered)

    def check_alone(self, key: EntryKey) -> None:
        """Raise `EffectNested` when the caller is inside a callback already."""
        if place := self._current.get():
            raise EffectNested(step=key.step, outer=place[1])

    def check_free(self, scope: str) -> None:
        """Raise `AdmittedOwnerMutation` when the caller is inside a callback that `scope` admits."""
        place = self._current.get()
        if place and place[0] == scope:
            raise AdmittedOwnerMutation(scope=scope)

    def begin(self, token: str) -> None:
        """Count `token` among the guards at work: whoever meets it waits for its return."""
        with self._turn:
            self._at_work.add(token)

    def end(self, token: str) -> None:
        """Count it no more: its guard is released, or stands for somebody else to release."""
        with self._turn:
            self._at_work.discard(token)

    def at_work(self, token: str) -> bool:
        """Whether the guard `token` is of a callback of this engine that has not returned."""
        with self._turn:
            return token in self._at_work
