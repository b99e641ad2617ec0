"""What one try of an effect means to send and what it has sent, and the block that comes back to an outer try."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from engine.errors import EffectOverdue

if TYPE_CHECKING:
    import httpx

    from engine.execution.cover import Cover
    from engine.shapes import EntryKey

_DAY_S: Final = 86_400


class Within:
    """A block after which its thread is in the try it was in before, if it was in one: each step is run in one."""

    __slots__ = ("_current", "_outer")

    def __init__(self, current: threading.local) -> None:
        self._current = current
        self._outer: Intent | None = getattr(current, "intent", None)

    def __enter__(self) -> None:
        """Nothing is to be done before."""

    def __exit__(self, *_: object) -> None:
        """Come back."""
        if self._outer:
            self._current.intent = self._outer


class Intent:
    """What one try of an effect means to send, and what it has sent."""

    __slots__ = (
        "abandoned",
        "ahead",
        "cover",
        "header",
        "id",
        "key",
        "let_go",
        "ours",
        "over",
        "sent",
        "turn",
        "written",
    )

    def __init__(self, key: EntryKey, header: str, cover: Cover | None, *, ahead: bool = False) -> None:
        self.abandoned = False
        self.ahead = ahead
        self.cover = cover
        self.let_go = False
        self.ours = False
        self.over = False
        self.id = ""
        self.key = key
        self.header = header
        self.sent: list[dict[str, Any]] = []
        self.turn = threading.Lock()
        self.written = ahead

    def check(self, request: httpx.Request, *, phases: tuple[str, ...]) -> None:
        """Raise `EffectOverdue` unless the cover lets `request` leave, of which these phases are still to come."""
        assert self.cover is not None, "asked for under a guard alone"
        if self.over:
            raise EffectOverdue(step=self.key.step, lapsed="its call has returned")
        self.cover.check(timeout_ms=_longest(request, phases=phases))


def _longest(request: httpx.Request, *, phases: tuple[str, ...]) -> float:
    """The milliseconds that these phases of the request may take, without limits those of a day."""
    limits = request.extensions.get("timeout", {})
    return sum(_DAY_S if limits.get(phase) is None else limits[phase] for phase in phases) * 1000
