from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from engine.corpus.schema import Schema
from engine.errors import SourceShape
from engine.pipeline.recording import PullMeta, decode, encode
from engine.pipeline.shape import shape

ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "Ä", "price": 1.5, "tags": ["a"], "gone": None, "wide": 2**70},
    {"id": 2, "name": None, "price": None, "tags": {"k": None}, "gone": None, "wide": None},
]


def recorded() -> bytes:
    found = shape(ROWS, declared={"price": "decimal(9,2)"}, table="t", place="page 1")
    meta = PullMeta(
        position={"next": "https://api.example.com/?page=2", "at": [1, None]}, more=True, complete=False,
        types={"price": "decimal(9,2)"}, skipped=3, schema=found.schema, downgrades=found.downgrades,
    )  # fmt: skip
    return encode(found.batch, meta)


@pytest.mark.clause("run.journal.replay-lands")
def test_a_replay_has_the_rows_the_facts_and_the_schema_of_the_first_landing() -> None:
    found = shape(ROWS, declared={"price": "decimal(9,2)"}, table="t", place="page 1")

    batch, meta = decode(recorded())

    assert batch.equals(found.batch, check_metadata=True)
    assert (meta.schema, meta.downgrades, meta.schema.untyped) == (found.schema, found.downgrades, ("gone",))
    assert (meta.more, meta.complete, meta.skipped, meta.types) == (True, False, 3, {"price": "decimal(9,2)"})
    assert meta.position == {"next": "https://api.example.com/?page=2", "at": [1, None]}


@pytest.mark.clause("run.journal.replay-lands")
def test_what_was_decoded_records_as_the_same_bytes() -> None:
    assert encode(*decode(recorded())) == recorded()


@pytest.mark.clause("run.journal.replay-lands")
def test_two_processes_record_a_pull_as_the_same_bytes() -> None:
    digest = f"import hashlib, runpy; print(hashlib.sha256(runpy.run_path({__file__!r})['recorded']()).hexdigest())"

    other = subprocess.run([sys.executable, "-c", digest], check=True, capture_output=True, text=True).stdout.strip()

    assert other == hashlib.sha256(recorded()).hexdigest()


@pytest.mark.clause("run.journal.recorded-batch")
def test_a_recording_is_an_arrow_stream_anyone_can_read() -> None:
    schema = pa.ipc.open_stream(recorded()).schema

    pull = schema.metadata[b"contextful.pull"]
    assert json.loads(pull).keys() == {"position", "more", "complete", "types", "skipped"}
    assert pull == json.dumps(json.loads(pull), sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.clause("run.journal.recorded-batch")
def test_rows_without_columns_are_recorded_as_rows() -> None:
    found = shape([{}, {"x": None}, {}], declared={}, table="t", place="page 1")

    batch, meta = decode(encode(found.batch, PullMeta(schema=found.schema)))

    assert (batch.num_rows, batch.num_columns) == (3, 0)
    assert meta.schema == Schema((), ("x",))


@pytest.mark.parametrize("position", [object(), float("nan"), {1, 2}, {"a": "\ud800"}])
def test_a_position_json_cannot_hold_is_refused(position: Any) -> None:
    found = shape(ROWS, declared={}, table="t", place="page 1")

    with pytest.raises(SourceShape, match=r"position.*expected a JSON value"):
        encode(found.batch, PullMeta(position=position))
