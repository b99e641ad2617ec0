"""A pull as the journal keeps it: one compressed Arrow stream that holds the rows and all that landing needs.

The stream's schema metadata carries the pull's own facts under `contextful.pull` and, under `contextful.schema`, what
shaping found out, so that a replay lands what the first landing did without asking again (run.journal.replay-lands).
Equal batches and facts give equal bytes, in every process of one build (run.journal.recorded-batch).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pyarrow as pa

from engine.corpus.schema import Schema
from engine.errors import SourceShape
from engine.pipeline.columns import Downgrade, shown
from engine.shapes import canonical_json

_PULL: Final = b"contextful.pull"
_SCHEMA: Final = b"contextful.schema"

_LARGE: Final = 4 << 20
"""Bytes, of a batch or of its recording, from which on threads share its columns: below, waking them takes longer."""


@dataclass(frozen=True, slots=True)
class PullMeta:
    """A pull without its rows: the walk's position and course, what was declared and skipped, what shaping found.

    `clocks` are the lowest and the highest watermark value the pull fetched, landed or not; None without a watermark.
    `not_admitted` counts the fetched rows that lie below the position and are not in the batch.
    `unchanged` is of a pull that is never recorded: the input is the one at the position, and nothing of it lands.
    `prepared` names what took the protected values out of the rows; None where no column is protected.
    """

    position: Any = None
    more: bool = False
    complete: bool = False
    types: dict[str, str] = field(default_factory=dict)
    skipped: int = 0
    schema: Schema = field(default_factory=Schema)
    downgrades: tuple[Downgrade, ...] = ()
    clocks: tuple[Any, Any] | None = None
    not_admitted: int = 0
    prepared: str | None = None
    unchanged: bool = False


def encode(batch: pa.RecordBatch, meta: PullMeta) -> bytes:
    """The bytes that record `batch`, which must be compact as `shape` makes it.

    Raise `SourceShape` for a position that JSON cannot hold.
    """
    schema = batch.schema.with_metadata({_PULL: _pull(meta), _SCHEMA: _found(meta)})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=batch.nbytes >= _LARGE)
    with pa.ipc.new_stream(sink, schema, options=options) as stream:
        stream.write_batch(batch)
    return sink.getvalue().to_pybytes()


def decode(data: bytes) -> tuple[pa.RecordBatch, PullMeta]:
    """The batch and facts that `encode` recorded."""
    batch = _stored(data)
    return _bare(batch), _meta(batch.schema)


def rows_of(data: bytes) -> pa.RecordBatch:
    """The batch that `encode` recorded."""
    return _bare(_stored(data))


def facts(data: bytes) -> PullMeta:
    """The facts that `encode` recorded, for whoever does not need the rows: they stay compressed."""
    with pa.ipc.open_stream(data) as stream:
        return _meta(stream.schema)


def _stored(data: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(data, options=pa.ipc.IpcReadOptions(use_threads=len(data) >= _LARGE)) as stream:
        return stream.read_next_batch()


def _bare(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.replace_schema_metadata(None)


def _meta(schema: pa.Schema) -> PullMeta:
    kept = schema.metadata
    found = json.loads(kept[_SCHEMA])
    downgrades = tuple(Downgrade(**event) for event in found.pop("downgrades"))
    clocks = found.pop("clocks", None)
    prepared, not_admitted = found.pop("prepared", None), found.pop("not_admitted", 0)
    return PullMeta(
        **json.loads(kept[_PULL]),
        schema=Schema.from_json(found),
        downgrades=downgrades,
        clocks=None if clocks is None else (clocks[0], clocks[1]),
        not_admitted=not_admitted,
        prepared=prepared,
    )


def _pull(meta: PullMeta) -> bytes:
    facts = {"more": meta.more, "complete": meta.complete, "types": meta.types, "skipped": meta.skipped}
    try:
        return canonical_json(facts | {"position": meta.position}).encode()
    except (TypeError, ValueError):
        found, expected = shown(meta.position), "a JSON value (finite numbers, text, lists, mappings with text keys)"
        raise SourceShape(place="the pull", path="position", found=found, expected=expected) from None


def _found(meta: PullMeta) -> bytes:
    found = meta.schema.to_json() | {"downgrades": [asdict(event) for event in meta.downgrades], "clocks": meta.clocks}
    if meta.not_admitted:
        found["not_admitted"] = meta.not_admitted
    if meta.prepared is not None:
        found["prepared"] = meta.prepared
    return canonical_json(found).encode()
