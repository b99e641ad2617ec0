"""What stages hold on disk, taken apart: whole Arrow streams, one behind the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from engine.pipeline.stage import FILE

if TYPE_CHECKING:
    from pathlib import Path


def contents(file: Path) -> list[bytes]:
    """The recorded bytes in a stage's file, pull by pull; the last may be torn."""
    found, content = [], file.read_bytes()
    source = pa.BufferReader(content)
    while (begins := source.tell()) < len(content):
        try:
            pa.ipc.open_stream(source).read_all()
        except (pa.ArrowInvalid, OSError):
            source.seek(len(content))
        found.append(content[begins : source.tell()])
    return found


def parts(root: Path) -> dict[str, bytes]:
    """The recorded bytes of every part staged below `root`, by run and ordinal."""
    return {
        f"{file.parent.relative_to(root)}/{ordinal:06}": content
        for file in sorted(root.rglob(FILE))
        for ordinal, content in enumerate(contents(file))
    }
