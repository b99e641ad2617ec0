"""Parquet: Arrow record batches, streamed row group by row group."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from shutil import copyfileobj
from typing import IO, TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import SourceShape
from engine.pipeline.sources.lines import BATCH_BYTES, BATCH_ROWS, Batch, Content, File, content_of, reading

_MEND: Final = (
    "mend the file, or have it written anew, and run again; where rows of it were read before, contextful status names "
    "the execution to give up first: contextful run rewind X --reason TEXT --force"
)
"""Unlike lines, no row of a file that is written anew is known to stand where it stood."""

if TYPE_CHECKING:
    from collections.abc import Iterator


def batches(file: File, *, start: int) -> Iterator[Batch]:
    """The rows from `start` on. Raise `SourceShape` when the file is broken."""
    with _seekable(file) as stream:
        try:
            content = content_of(stream)
            yield from _batches(pq.ParquetFile(stream), start, content)
        except pa.ArrowException as error:
            raise SourceShape(place=file.name, path="the file", found=f"broken data ({error})",
                              expected="a Parquet file").advising(_MEND) from error  # fmt: skip


def _batches(parquet: pq.ParquetFile, start: int, content: Content) -> Iterator[Batch]:
    total = parquet.metadata.num_rows
    groups, before = _groups_from(parquet.metadata, start)
    size, end = _batch_rows(parquet.metadata), start
    read = parquet.iter_batches(batch_size=size, row_groups=groups)
    for rows in _strides(read, size=size, skipped=start - before):
        end += rows.num_rows
        yield Batch(rows, end, last=end >= total, content=content)
    if start >= total:
        yield Batch(parquet.schema_arrow.empty_table(), total, last=True, content=content)


def _strides(read: Iterator[pa.RecordBatch], *, size: int, skipped: int) -> Iterator[pa.RecordBatch | pa.Table]:
    """What was `read`, without the first `skipped` rows, `size` rows at a time.

    So a walk that goes on within a row group cuts its pulls where one that began at the file's start does.
    """
    held: list[pa.RecordBatch] = []
    for batch in read:
        fresh = batch.slice(min(skipped, batch.num_rows))
        skipped -= batch.num_rows - fresh.num_rows
        if fresh.num_rows:
            held.append(fresh)
        if sum(part.num_rows for part in held) >= size:
            whole = pa.Table.from_batches(held)
            yield fresh if len(held) == 1 and fresh.num_rows == size else whole.slice(0, size)
            held = whole.slice(size).to_batches()
    if held:
        yield pa.Table.from_batches(held)


def _groups_from(metadata: pq.FileMetaData, start: int) -> tuple[list[int], int]:
    """The row groups that hold the rows from `start` on, and how many rows stand before them."""
    before = 0
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group).num_rows
        if before + rows > start:
            return list(range(group, metadata.num_row_groups)), before
        before += rows
    return [], before


def _batch_rows(metadata: pq.FileMetaData) -> int:
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    widest = max((group.total_byte_size / max(group.num_rows, 1) for group in groups), default=1.0)
    return max(1, min(BATCH_ROWS, int(BATCH_BYTES / max(widest, 1.0))))


@contextmanager
def _seekable(file: File) -> Iterator[IO[bytes]]:
    """The file itself; if compressed as a whole, a temporary copy, since Parquet is read from its end."""
    with reading(file) as stream:
        if file.path.suffix not in {".gz", ".zst"}:
            yield stream
            return
        with tempfile.TemporaryFile() as copy:
            copyfileobj(stream, copy)
            copy.seek(0)
            yield copy
