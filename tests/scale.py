"""How far a test goes: minutes' worth by default, as far as it can with CONTEXTFUL_TEST_SCALE=full."""

from __future__ import annotations

import os
from typing import Final, TypeVar

T = TypeVar("T")

FULL: Final = os.environ.get("CONTEXTFUL_TEST_SCALE") == "full"

EDGE_FULL: Final = os.environ.get("CONTEXTFUL_TEST_EDGE") == "full"
"""Whether the tests of pipelines are to run over an edge too: twenty minutes that the crash suite mostly covers."""


def scale(*, short: T, full: T) -> T:
    """Return what the scale of this run asks for."""
    return full if FULL else short


def edge_scale(*, short: T, full: T) -> T:
    """Return what is asked for of pipelines over an edge."""
    return full if EDGE_FULL else short
