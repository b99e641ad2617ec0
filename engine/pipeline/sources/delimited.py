"""CSV: comma-separated, a header row, UTF-8, quoted as RFC 4180 has it.

Every value is text; other types come from `columns.x.type`. An empty field, quoted or not, is null. A blank line
between records is no record.
"""

from __future__ import annotations

import csv
from collections import Counter
from typing import TYPE_CHECKING

from engine.pipeline.sources.lines import (
    BATCH_BYTES,
    BATCH_ROWS,
    LONGEST_LINE,
    Batch,
    File,
    Reading,
    broken,
    lines,
    reading,
)
from engine.pipeline.sources.placeholders import sample

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

Row = dict[str, str | None]


def batches(file: File, *, start: int) -> Iterator[Batch]:
    """The rows from `start` on. Raise `SourceShape` at a header or a record that cannot be read as one."""
    with reading(file) as stream:
        records = _Records(stream, file)
        rows: list[Row] = []
        begins, end = 0, 0
        for values in records:
            end += 1
            if end <= start:
                begins = records.read.bytes
                continue
            rows.append(dict(zip(records.header, values, strict=True)))
            if len(rows) >= BATCH_ROWS or records.read.bytes - begins >= BATCH_BYTES:
                yield Batch(rows, end, last=False, content=records.read.content)
                rows, begins = [], records.read.bytes
    yield Batch(rows, max(end, start), last=True, content=records.read.content)


class _Records:
    """The records of a file after its header, each as many values as the header has names."""

    def __init__(self, stream: IO[bytes], file: File) -> None:
        # The module's own limit of 128 KiB a field is for the whole process; a line's bound is the stricter one here.
        csv.field_size_limit(LONGEST_LINE)
        self._file = file
        self._line = 0
        self.read = Reading()
        self._reader = csv.reader(self._numbered(stream), strict=True)
        self.header = self._names()

    def __iter__(self) -> Iterator[list[str | None]]:
        while (record := self._next()) is not None:
            begins, values = record
            if len(values) != len(self.header):
                raise broken(self._file, begins, found=f"{len(values)} fields ({sample(','.join(values))})",
                             expected=f"{len(self.header)} as in the header", path="the record")  # fmt: skip
            yield [value or None for value in values]

    def _numbered(self, stream: IO[bytes]) -> Iterator[str]:
        for self._line, text in lines(stream, self._file, self.read):  # noqa: B020 - the attribute is the loop's own
            yield text

    def _next(self) -> tuple[int, list[str]] | None:
        """The next record that is not blank and the line it begins at."""
        while True:
            begins = self._line + 1
            try:
                values = next(self._reader)
            except StopIteration:
                return None
            except csv.Error as error:
                raise broken(
                    self._file, begins, found=str(error), expected="a CSV record", path="the record"
                ) from error
            if values:
                return begins, values

    def _names(self) -> list[str]:
        record = self._next()
        if record is None:
            return []
        begins, names = record
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice or "" in names:
            found = f"the name {twice[0]!r} more than once" if twice else f"no name for column {names.index('') + 1}"
            raise broken(self._file, begins, found=found, expected="a name of its own for each", path="the header")
        return names
