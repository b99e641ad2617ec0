"""Folders that nobody may write, root among them."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def without_privilege() -> tuple[str, ...]:
    """What a command is started by so that modes of files bind it, whoever runs the tests."""
    if os.geteuid() != 0:
        return ()
    return ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


@contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    """Take every right to write away from `folder` and what is below it, for the block."""
    paths = [folder, *folder.rglob("*")]
    modes = [path.stat().st_mode for path in paths]
    for path, mode in zip(paths, modes, strict=True):
        path.chmod(mode & ~0o222)
    try:
        yield
    finally:
        for path, mode in zip(paths, modes, strict=True):
            path.chmod(mode)
