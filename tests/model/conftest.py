"""The engine's pauses, as the models take them: a pause ends the turn and goes back to the head of its loop."""

from __future__ import annotations

import importlib

import pytest

from tests.model.replay import OPEN, Restart


class NoPause:
    def pause(self) -> bool:
        raise Restart


@pytest.fixture(autouse=True)
def _no_real_pauses(monkeypatch):
    for name in ("engine.journal", "engine.awakeables", "engine.local.blobs"):
        module = importlib.import_module(name)
        if hasattr(module, "pauses"):
            monkeypatch.setattr(module, "pauses", lambda **_: NoPause())


@pytest.fixture(autouse=True)
def _stores_are_closed():
    yield
    while OPEN:
        OPEN.pop().close()


def pytest_terminal_summary(terminalreporter):
    """Say how much each exploration went through."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "explored" and report.when == "call":
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {value}")
