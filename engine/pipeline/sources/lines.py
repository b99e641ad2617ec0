"""The bytes of a file, plain, `.gz` or `.zst`, and its lines with their numbers; memory stays flat however large it is.

Every error names the file, and where a line is broken its number, from 1 on.
"""

from __future__ import annotations

import gzip
import io
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final, cast

from engine.errors import ContextfulError, Permanent, SourceShape, Transient

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from engine.pipeline.declaration import Column

BATCH_ROWS: Final = 10_000
BATCH_BYTES: Final = 8 << 20
"""A pull of a file ends after this many rows or, if sooner, bytes."""

LONGEST_LINE: Final = 64 << 20
"""Bytes of the longest line read: past it a file is taken for one that has no lines."""

MEND: Final = "mend the file, or have it written anew, and run again"
"""What follows where a file is broken: nothing of the manifest would make it whole."""

_BUFFER: Final = 1 << 18
_COMPRESSED: Final = frozenset({".gz", ".zst"})
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class File:
    """A file to read. `name` is what positions and errors call it: its path from the manifest's folder.

    `columns` are what the table declares of its columns.
    """

    name: str
    path: Path
    columns: Mapping[str, Column] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a file: `end` counts the file's rows up to the last of them, `last` says that no more follow."""

    rows: Any
    end: int
    last: bool


@contextmanager
def reading(file: File) -> Iterator[IO[bytes]]:
    """The decompressed bytes of `file`. What goes wrong inside, compression included, is raised naming the file."""
    try:
        with _opened(file) as stream:
            yield stream
    except (EOFError, zlib.error, OSError) as error:
        raise _unreadable(file, error) from error


def lines(stream: IO[bytes], file: File) -> Iterator[tuple[int, str, int]]:
    """Each line's number, text with its line end, and bytes. Raise `SourceShape` at one that is no UTF-8 text."""
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise broken(file, number, found=f"over {LONGEST_LINE >> 20} MiB without an end", expected="a line")
        yield number, _text(line.removeprefix(_BOM) if number == 1 else line, file, number), len(line)


def broken(file: File, number: int, *, found: str, expected: str, path: str = "the line") -> SourceShape:
    """What stands at line `number` is not what it should be."""
    shape = SourceShape(place=f"{file.name} line {number}", path=path, found=found, expected=expected)
    return shape.advising(MEND)


def _opened(file: File) -> IO[bytes]:
    if file.path.suffix in _COMPRESSED and not file.path.stat().st_size:
        # Decompressors take no bytes for no content, but no compressor writes that: the file was cut off at its start.
        raise EOFError("not a byte of it is there")
    if file.path.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(file.path, "rb"))
    if file.path.suffix == ".zst":
        import pyarrow as pa  # noqa: PLC0415 - most files are not of this kind, and loading it takes longer than they do

        return io.BufferedReader(cast("io.RawIOBase", pa.input_stream(file.path, compression="zstd")), _BUFFER)
    return file.path.open("rb")


def _text(line: bytes, file: File, number: int) -> str:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        found = f"the byte 0x{line[error.start]:02x} at {error.start + 1}"
        raise broken(file, number, found=found, expected="text in UTF-8") from error
    if "\0" in text:
        raise broken(file, number, found=f"a NUL byte at {text.index(chr(0)) + 1}", expected="text in UTF-8")
    return text


def _unreadable(file: File, error: Exception) -> ContextfulError:
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
        return Permanent(f"{file.name} cannot be read: {reason}")
    if getattr(error, "errno", None):
        return Transient(f"{file.name} cannot be read: {reason}")
    return SourceShape(place=file.name, path="the file", found=f"broken or cut off data ({reason})",
                       expected=f"a whole {file.path.suffix} file").advising(MEND)  # fmt: skip
