"""The bytes of a file, plain, `.gz` or `.zst`, its lines with their numbers, and what names the content that was read.

Memory stays flat however large a file is. Every error names the file, and where a line is
broken its number, from 1 on.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final, TypedDict, cast

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

MEND: Final = (
    "mend the file, or have it written anew, and run again: it goes on only where what stands before is as it was"
)
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


class Content(TypedDict):
    """Names what a file began with: so many of its decompressed bytes, and their digest."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a file: `end` counts the file's rows up to the last of them, `last` says that no more follow.

    `content` names what the file holds up to there.
    """

    rows: Any
    end: int
    last: bool
    content: Content


class Reading:
    """What was read of a file, line by line, and what names it."""

    def __init__(self) -> None:
        self.bytes = 0
        self._digest = hashlib.sha256()
        self._lines: list[bytes] = []

    def of(self, stream: IO[bytes]) -> Iterator[bytes]:
        """The lines of `stream`, each counted; one too long is cut.

        Several are digested at a time: a call for each would cost more than its bytes do.
        """
        taken, held = self._lines.append, 0
        while line := stream.readline(LONGEST_LINE + 1):
            taken(line)
            length = len(line)
            self.bytes += length
            held += length
            if held >= _BUFFER:
                self._digest_lines()
                held = 0
            yield line

    @property
    def content(self) -> Content:
        """What names all that was read so far."""
        self._digest_lines()
        return {"bytes": self.bytes, "sha256": self._digest.hexdigest()}

    def _digest_lines(self) -> None:
        self._digest.update(b"".join(self._lines))
        self._lines.clear()


@contextmanager
def reading(file: File) -> Iterator[IO[bytes]]:
    """The decompressed bytes of `file`. What goes wrong inside, compression included, is raised naming the file."""
    try:
        with _opened(file) as stream:
            yield stream
    except (EOFError, zlib.error, OSError) as error:
        raise _unreadable(file, error) from error


def content_of(stream: IO[bytes]) -> Content:
    """What names a whole file, which can be sought in; it stands at its start again afterwards."""
    sha256 = hashlib.file_digest(cast("io.BufferedReader", stream), "sha256").hexdigest()
    size = stream.tell()
    stream.seek(0)
    return {"bytes": size, "sha256": sha256}


def changed(file: File, content: Content) -> str | None:
    """How `file` differs from one that still begins with `content`, what follows beginning on a line of its own."""
    digest, left, chunk = hashlib.sha256(), content["bytes"], b"\n"
    with reading(file) as stream:
        while left and (read := stream.read(min(left, _BUFFER))):
            digest.update(read)
            left, chunk = left - len(read), read
        follows = stream.read(1)
    if left:
        return f"only {content['bytes'] - left} of the {content['bytes']} bytes that were read are left"
    if digest.hexdigest() != content["sha256"]:
        return f"the {content['bytes']} bytes that were read are others now"
    if not chunk.endswith(b"\n") and follows not in {b"", b"\r", b"\n"}:
        return f"the line that ended at byte {content['bytes']} goes on"
    return None


def lines(stream: IO[bytes], file: File, read: Reading) -> Iterator[tuple[int, str]]:
    """Each line's number and its text with the line end. Raise `SourceShape` at one that is no UTF-8 text.

    `read` holds what was read up to the end of that line.
    """
    for number, line in enumerate(read.of(stream), start=1):
        if len(line) > LONGEST_LINE:
            raise broken(file, number, found=f"over {LONGEST_LINE >> 20} MiB without an end", expected="a line")
        yield number, _text(line.removeprefix(_BOM) if number == 1 else line, file, number)


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
