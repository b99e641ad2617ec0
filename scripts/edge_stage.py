#!/usr/bin/env python3
"""Lays out in build/worker exactly the modules the Worker runs; wrangler attaches whatever lies there.

Before a deployment wrangler runs this; the SDK comes to lie beside it then too, in python_modules.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from edge_tools import vendor

ROOT = Path(__file__).resolve().parent.parent
STAGE = ROOT / "build" / "worker"
ENTRY = ROOT / "worker" / "entry.py"

SHARED: Final = (
    "d1/__init__.py",
    "d1/guards/*.py",
    "d1/wire.py",
    "engine/__init__.py",
    "engine/errors/*.py",
    *(f"engine/guards/{name}.py" for name in ("__init__", "desk", "evidence", "guard", "rules", "store")),
    "engine/instants.py",
    "engine/nesting.py",
    "engine/operator/__init__.py",
    "engine/operator/claims.py",
    "engine/operator/named.py",
    "engine/ports.py",
    "engine/seals.py",
    "engine/shapes.py",
    "engine/sql/__init__.py",
    "engine/unanswered.py",
)
"""What the Worker shares with the engine: the rules of guards and the statements beside them, of the standard library
alone."""

TEXTS: Final = ("guards", "meta", "operator")
"""The statements that the Worker runs, by their files. Only modules travel, so the texts do as one."""

TEXTS_MODULE: Final = "engine/sql/texts.py"


def stage(into: Path = STAGE, *, entry: Path = ENTRY) -> Path:
    """Fill `into` afresh and return it: `entry` as `entry.py` on top, the packages it needs beside it."""
    shutil.rmtree(into, ignore_errors=True)
    for source in sorted((ROOT / "worker").glob("*.py")):
        if source != ENTRY:
            _copy(source, into)
    for pattern in SHARED:
        for source in sorted(ROOT.glob(pattern)):
            _copy(source, into)
    (into / TEXTS_MODULE).write_text(_texts(), encoding="utf-8")
    shutil.copy(entry, into / "entry.py")
    return into


def _copy(source: Path, into: Path) -> None:
    target = into / source.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def _texts() -> str:
    """The module that stands for the `.sql` files where there are none: of what is not told, nothing."""
    found = {name: (ROOT / "engine" / "sql" / f"{name}.sql").read_text(encoding="utf-8") for name in TEXTS}
    head = '"""The texts of the statements that the Worker runs; laid out before each deployment."""\n'
    body = "\n".join(f"    {name!r}: {text!r}," for name, text in found.items())
    look = 'def text_of(table):\n    """The text of a table\'s file."""\n    return _TEXTS.get(table, "")\n'
    return f"{head}\n_TEXTS = {{\n{body}\n}}\n\n\n{look}"


if __name__ == "__main__":
    vendor()
    stage()
