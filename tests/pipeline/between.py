"""Lets a test do what another process does in the moment between a run's look at what stands and its opening."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.pipeline.table_run import TableRun

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def between_look_and_open(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], Any]) -> None:
    """Do `meanwhile` once, when the next run of a table has looked at what stands and not opened yet."""
    run = TableRun.run

    def overtaken(self: TableRun, run_id: str, **asked: Any) -> Any:
        monkeypatch.setattr(TableRun, "run", run)
        meanwhile()
        return run(self, run_id, **asked)

    monkeypatch.setattr(TableRun, "run", overtaken)
