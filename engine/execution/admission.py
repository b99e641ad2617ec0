"""Cooperative admission: what a local profile can promise about callbacks that touch the outside.

While a callback runs, its thread may not move the owner that admits it, and a callback nested in it may use only the
scopes its caller already holds (run.journal.guard-callback). Nothing here stops another process: the profile says so by
not wiring `strict-guards`.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.errors import AdmittedOwnerMutation

if TYPE_CHECKING:
    from collections.abc import Iterator


class CooperativeAdmission:
    """Keeps, thread by thread, the scope under which a callback is running."""

    def __init__(self) -> None:
        self._admitted = threading.local()

    @contextmanager
    def callback(self, scope: str) -> Iterator[None]:
        """Admit a callback under `scope` for as long as the block runs."""
        outer = self._scope
        if outer not in {None, scope}:
            raise AdmittedOwnerMutation(scope=str(outer))
        self._admitted.scope = scope
        try:
            yield
        finally:
            self._admitted.scope = outer

    def check_free(self, scope: str) -> None:
        """Raise `AdmittedOwnerMutation` when the calling thread is inside a callback that `scope` admits."""
        if self._scope == scope:
            raise AdmittedOwnerMutation(scope=scope)

    @property
    def _scope(self) -> str | None:
        return getattr(self._admitted, "scope", None)
