"""The texts of the `.sql` files beside this module.

The Worker has no such files: what is laid out for it holds, in this module's place, the few texts it runs.
"""

from __future__ import annotations

from importlib.resources import files


def text_of(table: str) -> str:
    """The text of `table`'s file."""
    return files("engine.sql").joinpath(f"{table}.sql").read_text(encoding="utf-8")
