"""A peer that answers in the binding's stead: an intermediary, or nobody that was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.answering import Answering

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGE: Final = b"<html>Too many requests</html>"


class Scripted(Answering):
    """Answers each request with the next of its `script`, and keeps what came."""

    script: list[tuple[int, Any, Mapping[str, str]]]
    came: list[tuple[str, str | None]]

    def reply(self) -> None:
        self.read()
        self.came.append((self.command, self.headers["accept-encoding"]))
        self.answer(*self.script.pop(0))

    do_PUT = do_DELETE = do_HEAD = reply  # noqa: N815 - the names the server looks for


class Foreign:
    """What a test tells the peer to answer, and what came there."""

    def __init__(self) -> None:
        self.script: list[tuple[int, Any, Mapping[str, str]]] = []
        self.came: list[tuple[str, str | None]] = []

    def answers(self, status: int, content: Any, headers: Mapping[str, str] | None = None, *, times: int = 1) -> None:
        self.script += [(status, content, headers or {})] * times
