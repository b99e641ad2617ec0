"""JSON lines: one object a line, blank lines skipped, integers exact at any size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from engine.pipeline.sources.answers import decoder, kind
from engine.pipeline.sources.lines import BATCH_BYTES, BATCH_ROWS, Batch, File, broken, lines, reading
from engine.pipeline.sources.placeholders import sample

if TYPE_CHECKING:
    from collections.abc import Iterator


def batches(file: File, *, start: int) -> Iterator[Batch]:
    """The objects from row `start` on. Raise `SourceShape` at a line that is no JSON object."""
    rows: list[dict[str, Any]] = []
    size, end = 0, 0
    json = decoder(file.columns)
    with reading(file) as stream:
        for number, text, length in lines(stream, file):
            if not text.strip():
                continue
            end += 1
            if end <= start:
                continue
            rows.append(_object(text, file, number, json=json))
            size += length
            if len(rows) >= BATCH_ROWS or size >= BATCH_BYTES:
                yield Batch(rows, end, last=False)
                rows, size = [], 0
    yield Batch(rows, max(end, start), last=True)


def _object(text: str, file: File, number: int, *, json: msgspec.json.Decoder[Any]) -> dict[str, Any]:
    try:
        value = json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise broken(file, number, found=f"{sample(text)!r} ({error})", expected="a JSON object") from error
    if not isinstance(value, dict):
        raise broken(file, number, found=kind(value), expected="a JSON object")
    return value
