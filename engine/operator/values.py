"""The value that an operator gives for a step: a JSON file, as the journal records what a step returned."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NoReturn

from engine.errors import GuardValueUnusable, ValueUnsupported
from engine.execution.values import encode

if TYPE_CHECKING:
    from pathlib import Path


def recorded(file: Path) -> bytes:
    """The bytes to record for the JSON in `file`. Raise `GuardValueUnusable`."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"), parse_constant=_no_constant)
        return encode(value, step="--value")
    except OSError as problem:
        raise GuardValueUnusable(place=str(file), found=f"it cannot be read ({problem.strerror})") from problem
    except (ValueError, RecursionError, ValueUnsupported) as problem:
        raise GuardValueUnusable(place=str(file), found=f"it is not JSON: {problem}") from problem


def _no_constant(name: str) -> NoReturn:
    msg = f"{name} is no JSON"
    raise ValueError(msg)
