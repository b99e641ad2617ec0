#!/usr/bin/env python3
"""Lays out in build/worker exactly the modules the Worker runs; wrangler attaches whatever lies there.

Before a deployment wrangler runs this; the SDK comes to lie beside it then too, in python_modules.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from edge_tools import vendor

ROOT = Path(__file__).resolve().parent.parent
STAGE = ROOT / "build" / "worker"
ENTRY = ROOT / "worker" / "entry.py"


def stage(into: Path = STAGE, *, entry: Path = ENTRY) -> Path:
    """Fill `into` afresh and return it: `entry` as `entry.py` on top, the package `worker` beside it."""
    shutil.rmtree(into, ignore_errors=True)
    (into / "worker").mkdir(parents=True)
    shutil.copy(entry, into / "entry.py")
    for source in sorted((ROOT / "worker").glob("*.py")):
        if source != ENTRY:
            shutil.copy(source, into / "worker" / source.name)
    return into


if __name__ == "__main__":
    vendor()
    stage()
