"""Writes whose answer is lost: what stands tells whether one was applied, and none is sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from engine.errors import StorageBindingUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = TypeVar("Answer")


def settled(write: Callable[[], Answer], *, found: Callable[[], Answer | None]) -> Answer:
    """Return what `write` returns; where its answer is lost, what `found` makes of what stands.

    `found` returns None unless what stands can only be this write's doing. Then, and where looking fails as well, the
    write's own failure is raised: its outcome stays unknown.
    """
    try:
        return write()
    except StorageBindingUnavailable as lost:
        if lost.applied == "no":
            raise
        answer = _looked(found)
        if answer is None:
            raise
        return answer


def _looked(found: Callable[[], Answer | None]) -> Answer | None:
    try:
        return found()
    except StorageBindingUnavailable:
        return None
