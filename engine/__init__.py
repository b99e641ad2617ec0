"""contextful: durable runs.

What a program imports is here; each name is loaded when it is first used, so importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
"""As `typing` has it, which takes longer to import than all else before the command line hears Ctrl-C."""

if TYPE_CHECKING:
    from typing import Any

    from engine import errors
    from engine.errors import Permanent, RateLimited, Transient
    from engine.execution.call import Call
    from engine.execution.execution import Execution
    from engine.host import Engine
    from engine.pipeline.source import Ask
    from engine.pipeline.sources.python import source
    from engine.project import start
    from engine.schedule import Schedule
    from engine.shapes import Pull

_HOMES = {
    "Ask": "engine.pipeline.source",
    "Call": "engine.execution.call",
    "Engine": "engine.host",
    "Execution": "engine.execution.execution",
    "Permanent": "engine.errors",
    "Pull": "engine.shapes",
    "RateLimited": "engine.errors",
    "Schedule": "engine.schedule",
    "Transient": "engine.errors",
    "source": "engine.pipeline.sources.python",
    "start": "engine.project",
}

__all__ = [
    "Ask",
    "Call",
    "Engine",
    "Execution",
    "Permanent",
    "Pull",
    "RateLimited",
    "Schedule",
    "Transient",
    "errors",
    "source",
    "start",
]


def __getattr__(name: str) -> Any:
    """Load a public name from the module it lives in."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "errors":
        return import_module("engine.errors")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
