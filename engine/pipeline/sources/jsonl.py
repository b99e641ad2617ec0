"""JSON lines: one object a line, blank lines skipped, integers exact at any size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from engine.pipeline.sources.answers import decoder, kind, unreadable
from engine.pipeline.sources.lines import BATCH_BYTES, BATCH_ROWS, Batch, File, Reading, broken, lines, reading
from engine.pipeline.sources.placeholders import sample

if TYPE_CHECKING:
    from collections.abc import Iterator


def batches(file: File, *, start: int) -> Iterator[Batch]:
    """The objects from row `start` on. Raise `SourceShape` at a line that is no JSON object."""
    rows: list[dict[str, Any]] = []
    read, begins, end = Reading(), 0, 0
    json = decoder(file.columns)
    with reading(file) as stream:
        for number, text in lines(stream, file, read):
            if not text.strip():
                continue
            end += 1
            if end <= start:
                begins = read.bytes
                continue
            rows.append(_object(text, file, number, json=json))
            if len(rows) >= BATCH_ROWS or read.bytes - begins >= BATCH_BYTES:
                yield Batch(rows, end, last=False, content=read.content)
                rows, begins = [], read.bytes
    yield Batch(rows, max(end, start), last=True, content=read.content)


def _object(text: str, file: File, number: int, *, json: msgspec.json.Decoder[Any]) -> dict[str, Any]:
    try:
        value = json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        found = f"{sample(text)!r} ({unreadable(text.rstrip().encode(), error)})"
        raise broken(file, number, found=found, expected="a JSON object") from error
    if not isinstance(value, dict):
        raise broken(file, number, found=kind(value), expected="a JSON object")
    return value
