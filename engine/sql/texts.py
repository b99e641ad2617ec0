"""The texts of the `.sql` files beside this module.

The Worker has no such files: what is laid out for it holds, in this module's place, the few texts it runs.
"""

from __future__ import annotations

from pathlib import Path


def text_of(table: str) -> str:
    """The text of `table`'s file."""
    # Not through importlib.resources: what that imports, archives and temporary files, costs every command 8 ms.
    return Path(__file__).with_name(f"{table}.sql").read_text(encoding="utf-8")
