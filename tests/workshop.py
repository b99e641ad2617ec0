"""A folder for tests that kill processes by the hundred."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def workshop() -> Iterator[Path]:
    """A folder in memory where there is one: a kill asks nothing of a disk, and thousands of syncs cost minutes."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="contextful-", dir=memory if os.access(memory, os.W_OK) else None))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
