"""Every byte below a folder, as it lies there and as it unpacks, searched for values in all spellings they may have."""

from __future__ import annotations

import base64
import json
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_STREAM: Final = b"\xff\xff\xff\xff"
_FRAME: Final = b"\x28\xb5\x2f\xfd"


def found(root: Path, planted: Iterable[Any]) -> list[str]:
    """Where below `root` which of the `planted` values stands, and in which spelling."""
    wanted = [(spelling, f"{value!r} {kind}") for value in planted for kind, spelling in spellings(value)]
    return [
        f"{place}: {name}" for place, content in _contents(root) for spelling, name in wanted if spelling in content
    ]


def spellings(value: Any) -> Iterator[tuple[str, bytes]]:
    """The ways a text or an integer could lie in a file."""
    text = str(value)
    plain = text.encode()
    yield "plain", plain
    yield "escaped", json.dumps(text)[1:-1].encode()
    yield "percent-encoded", quote(text, safe="").encode()
    yield "utf-16", text.encode("utf-16-le")
    yield "utf-16", text.encode("utf-16-be")
    for shift in range(3):
        # The characters of a Base64 text that are the value's own whatever stands before and behind it.
        whole = base64.b64encode(b"\0" * shift + plain)
        yield "base64", whole[-(-shift * 4 // 3) : len(whole) // 4 * 4 - 4]
    if isinstance(value, int):
        yield "as 64 bits", value.to_bytes(8, "little")


def _contents(root: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(root.rglob("*")):
        if not path.is_file():
            continue
        name, content = str(path.relative_to(root)), path.read_bytes()
        yield name, content
        if content.startswith(b"SQLite format 3\0"):
            yield from ((f"{name}: {place}", cell) for place, cell in _cells(path))
        else:
            yield from _unpacked(name, content)


def _cells(database: Path) -> Iterator[tuple[str, bytes]]:
    """Every cell of a copy of the database, its log applied, and what each unpacks to."""
    with tempfile.TemporaryDirectory() as folder:
        for part in database.parent.glob(f"{database.name}*"):
            shutil.copy(part, folder)
        with closing(sqlite3.connect(Path(folder) / database.name)) as copy:
            for (table,) in copy.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
                for row in copy.execute(f"SELECT * FROM {table}").fetchall():
                    for cell in row:
                        content = cell if isinstance(cell, bytes) else str(cell).encode()
                        yield table, content
                        yield from _unpacked(table, content)


def _unpacked(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """What a recording or a part holds, uncompressed; of what is torn or neither, each frame as far as it goes."""
    try:
        if content.startswith(_STREAM):
            yield f"{name} (decoded)", _plain(pa.ipc.open_stream(content).read_all())
            return
        if content.startswith(b"PAR1"):
            yield f"{name} (decoded)", _plain(pq.read_table(pa.BufferReader(content)))
            return
    except (pa.ArrowException, OSError):
        pass
    at = content.find(_FRAME)
    while at >= 0:
        yield f"{name} (frame at {at})", _thawed(content[at:])
        at = content.find(_FRAME, at + 1)


def _plain(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes() + repr(table.to_pylist()).encode()


def _thawed(frame: bytes) -> bytes:
    thawed = b""
    try:
        with pa.CompressedInputStream(pa.BufferReader(frame), "zstd") as stream:
            while piece := stream.read(64):
                thawed += piece
    except (pa.ArrowException, OSError):
        pass
    return thawed
