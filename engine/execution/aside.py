"""A thread beside the run for work that may block where nobody looks at a token: a vendor's slow page.

run ──hands over──▶ thread        The run waits for the answer or for its token, whichever comes first.
▲                    │
├────── answer ──────┘
└────── token             then the work is abandoned: its answer, if one comes, goes nowhere
"""

from __future__ import annotations

import threading
import weakref
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.execution.cancellation import Cancellation

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a piece of work came to."""

    value: Any = None
    raised: BaseException | None = None


@dataclass(frozen=True, slots=True)
class _Work:
    do: Callable[[], Any]
    answers: SimpleQueue[_Answer | None]


class Aside:
    """Does one piece of work at a time on a thread of its own, started with the first.

    Handing over and back costs 8 to 15 µs. The thread is a daemon: abandoned work that never returns keeps no process
    alive.
    """

    def __init__(self, cancellation: Cancellation, *, name: str, abandoning: Callable[[], None]) -> None:
        self._cancellation = cancellation
        self._name = name
        self._abandoning = abandoning
        self._handed: SimpleQueue[_Work | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._abandoned = False
        # A simple queue may be put to from a finalizer: a dropped handle ends its thread.
        weakref.finalize(self, self._handed.put, None)

    def run(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, or raise what it raises.

        Raise the token's reason as soon as it is tripped (run.cancel.one-token): the work is abandoned then, told so by
        `abandoning`, and so it is when the waiting itself is interrupted.
        """
        self._cancellation.check()
        answers: SimpleQueue[_Answer | None] = SimpleQueue()
        with self._cancellation.heard(lambda: answers.put(None)):
            self._hand(_Work(work, answers))
            try:
                answer = answers.get()
            except BaseException:
                self._abandon()
                raise
        if answer is None:
            self._abandon()
            self._cancellation.check()
        answered = cast("_Answer", answer)
        if answered.raised is not None:
            raise answered.raised
        return cast("T", answered.value)

    def close(self, last: Callable[[], None]) -> None:
        """End the thread, and do `last`: at once, or when abandoned work that may still use it has returned."""
        if self._abandoned:
            self._hand(_Work(last, SimpleQueue()))
        else:
            last()
        self._handed.put(None)

    def _hand(self, work: _Work) -> None:
        if self._thread is None:
            # In one context from the first to the last: a generator goes on where its variables are.
            serve = partial(copy_context().run, _serve, self._handed)
            self._thread = threading.Thread(target=serve, name=self._name, daemon=True)
            self._thread.start()
        self._handed.put(work)

    def _abandon(self) -> None:
        self._abandoned = True
        self._abandoning()


def _serve(handed: SimpleQueue[_Work | None]) -> None:
    while (work := handed.get()) is not None:
        work.answers.put(_done(work.do))
        # Nothing of it is kept while the thread waits for more: an answer may be a page of rows.
        del work


def _done(do: Callable[[], Any]) -> _Answer:
    try:
        return _Answer(do())
    except BaseException as raised:
        return _Answer(raised=raised)
