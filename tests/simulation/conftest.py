"""What simulations stand on: a folder in memory, where the machine has one."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY: Final = Path("/dev/shm")


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="contextful-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
    yield made
    shutil.rmtree(made, ignore_errors=True)
